package stages

import (
	"math"

	"github.com/smg-go/smg/pipeline"
)

// ruleSet is what a kind of body must satisfy, in the order in which it is checked.
type ruleSet struct {
	required  []field
	fields    []rule
	relations []relation
}

// rule is about one field; it is asked only if the field is there.
type rule struct {
	field    field
	check    func(r *rule, value []byte) *pipeline.Error
	min, max float64
}

// relation is about several fields; it is asked only if one of a set of fields is there.
type relation struct {
	of    uint64 // a bit for each field
	check func(body []byte, f *fieldSet) *pipeline.Error
}

func ifAny(ids ...field) (set uint64) {
	for _, id := range ids {
		set |= 1 << id
	}
	return set
}

var unbounded = math.Inf(1)

// kindRules are the rules of http-dataplane.md, section 3.3. What is missing here is the engine's business.
var kindRules = [kindCount]ruleSet{
	Chat: {
		required: []field{fieldModel, fieldMessages},
		fields: append([]rule{
			{fieldModel, isString, 0, 0},
			{fieldMessages, nonEmptyArray, 0, 0},
			{fieldMaxTokens, integer, 1, unbounded},
			{fieldMaxCompletionTokens, integer, 1, unbounded},
			{fieldN, integer, 1, 10},
			{fieldLogprobs, boolean, 0, 0},
			{fieldTopLogprobs, integer, 0, 20},
			{fieldTools, isArray, 0, 0},
			{fieldReasoningEffort, stringOrNumber, 0, 0},
		}, samplingRules...),
		relations: []relation{
			{ifAny(fieldStreamOptions), streamOptionsNeedStream},
			{ifAny(fieldTopLogprobs), topLogprobsNeedLogprobs},
			{ifAny(fieldMinTokens), minTokensFit},
			{ifAny(fieldRegex, fieldEBNF, fieldJSONSchema), oneConstraint},
			{ifAny(fieldResponseFormat), schemaHasName},
			{ifAny(fieldToolChoice), chatToolChoice},
		},
	},
	Completions: {
		required: []field{fieldModel, fieldPrompt},
		fields: append([]rule{
			{fieldModel, isString, 0, 0},
			{fieldPrompt, promptShape, 0, 0},
			{fieldMaxTokens, integer, 0, unbounded},
			{fieldN, integer, 1, 128},
			{fieldBestOf, integer, 0, 20},
			{fieldLogprobs, integer, 0, 5},
		}, samplingRules...),
		relations: []relation{
			{ifAny(fieldStreamOptions), streamOptionsNeedStream},
			{ifAny(fieldMinTokens), minTokensFit},
		},
	},
	Messages: {
		required: []field{fieldModel, fieldMessages, fieldMaxTokens},
		fields: []rule{
			{fieldModel, nonBlankString, 0, 0},
			{fieldMessages, nonEmptyArray, 0, 0},
			{fieldMaxTokens, integer, 1, unbounded},
			{fieldStream, boolean, 0, 0},
			{fieldTools, isArray, 0, 0},
		},
		relations: []relation{
			{ifAny(fieldToolChoice), messagesToolChoice},
			{ifAny(fieldTools), toolsetsHaveServers},
		},
	},
	Responses: {
		required: []field{fieldModel, fieldInput},
		fields: []rule{
			{fieldModel, isString, 0, 0},
			{fieldInput, responsesInput, 0, 0},
			{fieldMaxOutputTokens, integer, 1, unbounded},
			{fieldMaxToolCalls, integer, 1, unbounded},
			{fieldStream, boolean, 0, 0},
			{fieldTemperature, decimal, 0, 2},
			{fieldTopP, decimalAbove, 0, 1},
			{fieldFrequencyPenalty, decimal, -2, 2},
			{fieldPresencePenalty, decimal, -2, 2},
			{fieldTopLogprobs, integer, 0, 20},
		},
	},
	Rerank: {
		required: []field{fieldModel, fieldQuery, fieldDocuments},
		fields: append([]rule{
			{fieldModel, isString, 0, 0},
			{fieldQuery, isString, 0, 0},
			{fieldDocuments, arrayOfStrings, 0, 0},
		}, rerankRules...),
	},
	V1Rerank: {
		required: []field{fieldQuery, fieldDocuments},
		fields:   rerankRules,
	},
	// generate, embeddings, classify and count_tokens: the engine knows best
}

// samplingRules are what chat and completions have in common.
var samplingRules = []rule{
	{fieldStream, boolean, 0, 0},
	{fieldTemperature, decimal, 0, 2},
	{fieldTopP, decimalAbove, 0, 1},
	{fieldTopK, integerOrMinusOne, 1, unbounded},
	{fieldMinP, decimal, 0, 1},
	{fieldFrequencyPenalty, decimal, -2, 2},
	{fieldPresencePenalty, decimal, -2, 2},
	{fieldRepetitionPenalty, decimal, 0, 2},
	{fieldMinTokens, integer, 0, unbounded},
	{fieldStop, stopSequences, 0, 4},
}

// rerankRules are what both rerank routes have in common.
var rerankRules = []rule{
	{fieldQuery, notBlank, 0, 0},
	{fieldDocuments, notEmptyList, 0, 0},
	{fieldTopK, integer, 1, unbounded},
	{fieldReturnDocuments, boolean, 0, 0},
}
