package telemetry

import (
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// batchDialing makes gRPC send batches of spans at little cost: into memory that is used again as it is (its own pool clears a
// mebibyte for a batch of 90 KB), and in one write.
func batchDialing() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(spanCodec{encoding.GetCodecV2(proto.Name)})),
		grpc.WithWriteBufferSize(256 << 10),
	}
}

// spanCodec is the usual codec of protobuf messages but for the memory that it writes to.
type spanCodec struct{ encoding.CodecV2 }

// Marshal is called by gRPC.
func (spanCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(protobuf.Message)
	if !ok {
		return nil, fmt.Errorf("spans cannot be sent: %T is no protobuf message", v)
	}
	size := protobuf.Size(m)
	b := batchBuffers.Get(size)
	wire, err := protobuf.MarshalOptions{UseCachedSize: true}.MarshalAppend((*b)[:0], m)
	if err != nil {
		return nil, err
	}
	*b = wire
	return mem.BufferSlice{mem.NewBuffer(b, &batchBuffers)}, nil
}

// batchBuffers are the bytes of batches that were sent.
var batchBuffers bufferPool

// bufferPool implements gRPC's pool of buffers.
type bufferPool struct{ kept sync.Pool }

var _ mem.BufferPool = (*bufferPool)(nil)

// Get returns size bytes of any content.
func (p *bufferPool) Get(size int) *[]byte {
	b, _ := p.kept.Get().(*[]byte)
	if b == nil || cap(*b) < size {
		b = new([]byte)
		*b = make([]byte, size)
	}
	*b = (*b)[:size]
	return b
}

// Put takes back what Get returned.
func (p *bufferPool) Put(b *[]byte) { p.kept.Put(b) }
