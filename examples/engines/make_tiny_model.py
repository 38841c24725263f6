#!/usr/bin/env python3
"""Makes a tiny Llama model with random weights: a folder as vLLM reads it or, with --gguf, a file as llama.cpp does.

usage: make_tiny_model.py OUT_DIR [--gguf FILE] [--seed N]
Needs tokenizers, numpy, and safetensors or gguf; no network. The tokenizer is a byte-level BPE trained on the sources of Python's
standard library, so it can encode any text. What the model says is gibberish and, at temperature 0, always the same for one seed.
"""
import argparse
import glob
import json
import os
import sysconfig

import numpy as np

# vLLM on CPU needs a head size of at least 32.
VOCAB, HIDDEN, INTER, LAYERS, HEADS, KV_HEADS, CTX = 2048, 64, 128, 2, 2, 1, 32768
HEAD_DIM = HIDDEN // HEADS
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{%- if tools %}{{- '<|im_start|>system\nTools: ' + (tools | tojson) + '<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages %}"
    "{{- '<|im_start|>' + m['role'] + '\n' }}"
    "{%- if m['content'] is string %}{{- m['content'] }}"
    "{%- elif m['content'] %}{%- for p in m['content'] %}{{- p['text'] if 'text' in p else '' }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def train_tokenizer(path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    files = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))[:80]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train(files, trainer)
    assert tok.get_vocab_size() == VOCAB, tok.get_vocab_size()
    tok.save(path)


def weights(seed):
    rng = np.random.default_rng(seed)

    def w(*shape):
        return (rng.standard_normal(shape) * 0.08).astype(np.float32)

    t = {"model.embed_tokens.weight": w(VOCAB, HIDDEN), "lm_head.weight": w(VOCAB, HIDDEN),
         "model.norm.weight": np.ones(HIDDEN, np.float32)}
    # Special tokens are never the likeliest next token: requests run to max_tokens.
    t["lm_head.weight"][: len(SPECIAL)] = 0
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        t[p + "input_layernorm.weight"] = np.ones(HIDDEN, np.float32)
        t[p + "post_attention_layernorm.weight"] = np.ones(HIDDEN, np.float32)
        t[p + "self_attn.q_proj.weight"] = w(HEADS * HEAD_DIM, HIDDEN)
        t[p + "self_attn.k_proj.weight"] = w(KV_HEADS * HEAD_DIM, HIDDEN)
        t[p + "self_attn.v_proj.weight"] = w(KV_HEADS * HEAD_DIM, HIDDEN)
        t[p + "self_attn.o_proj.weight"] = w(HIDDEN, HEADS * HEAD_DIM)
        t[p + "mlp.gate_proj.weight"] = w(INTER, HIDDEN)
        t[p + "mlp.up_proj.weight"] = w(INTER, HIDDEN)
        t[p + "mlp.down_proj.weight"] = w(HIDDEN, INTER)
    return t


def dump(path, obj):
    with open(path, "w") as f:
        json.dump(obj, f, indent=1)


def write_hf(out, t):
    from safetensors.numpy import save_file

    save_file(t, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
    dump(os.path.join(out, "config.json"), {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "intermediate_size": INTER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "max_position_embeddings": CTX, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False,
        "mlp_bias": False, "torch_dtype": "float32", "bos_token_id": 0, "eos_token_id": 2})
    dump(os.path.join(out, "generation_config.json"), {"bos_token_id": 0, "eos_token_id": 2})
    dump(os.path.join(out, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0], "add_bos_token": False, "clean_up_tokenization_spaces": False,
        "model_max_length": CTX, "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {str(i): {"content": s, "special": True, "lstrip": False,
                                          "rstrip": False, "normalized": False, "single_word": False}
                                 for i, s in enumerate(SPECIAL)}})


def write_gguf(path, tok_path, t):
    import gguf

    def permute(w, heads):  # the rotary layout that llama.cpp expects
        return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)

    g = gguf.GGUFWriter(path, "llama")
    g.add_name("tiny")
    g.add_context_length(CTX)
    g.add_embedding_length(HIDDEN)
    g.add_block_count(LAYERS)
    g.add_feed_forward_length(INTER)
    g.add_head_count(HEADS)
    g.add_head_count_kv(KV_HEADS)
    g.add_rope_dimension_count(HEAD_DIM)
    g.add_rope_freq_base(10000.0)
    g.add_layer_norm_rms_eps(1e-5)
    g.add_vocab_size(VOCAB)
    g.add_file_type(gguf.LlamaFileType.ALL_F32)
    tj = json.load(open(tok_path))["model"]
    by_id = {i: s for s, i in tj["vocab"].items()}
    g.add_tokenizer_model("gpt2")
    g.add_tokenizer_pre("gpt-2")
    g.add_token_list([by_id[i] for i in range(VOCAB)])
    g.add_token_types([gguf.TokenType.CONTROL if i < len(SPECIAL) else gguf.TokenType.NORMAL for i in range(VOCAB)])
    g.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tj["merges"]])
    g.add_bos_token_id(0)
    g.add_eos_token_id(2)
    g.add_pad_token_id(0)
    g.add_add_bos_token(False)
    g.add_chat_template(CHAT_TEMPLATE)
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    top = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
           "model.norm.weight": "output_norm.weight"}
    for name, w in t.items():
        if name in top:
            g.add_tensor(top[name], w)
            continue
        _, _, i, rest = name.split(".", 3)
        part = rest.removesuffix(".weight")
        if part.endswith("q_proj"):
            w = permute(w, HEADS)
        elif part.endswith("k_proj"):
            w = permute(w, KV_HEADS)
        g.add_tensor(f"blk.{i}.{names[part]}.weight", np.ascontiguousarray(w))
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--gguf")
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    tok = os.path.join(a.out, "tokenizer.json")
    train_tokenizer(tok)
    t = weights(a.seed)
    if a.gguf:
        write_gguf(a.gguf, tok, t)
    else:
        write_hf(a.out, t)


if __name__ == "__main__":
    main()
