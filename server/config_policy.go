package server

import (
	"fmt"
	"strings"
)

// PolicyConfig says how a worker is chosen.
type PolicyConfig struct {
	Policy       string       `name:"policy" default:"cache_aware" enum:"random,round_robin,passthrough,cache_aware,power_of_two,least_load,prefix_hash,consistent_hashing,manual,bucket,least_work" help:"Default policy: ${enum}."`
	EnableIGW    bool         `name:"enable-igw" help:"Serve several models, each with its own workers."`
	ModelAliases []ModelAlias `name:"model-alias" type:"multi" placeholder:"ALIAS=MODEL ..." help:"Further names under which clients may ask for a model."`
}

func defaultPolicy() PolicyConfig {
	return PolicyConfig{Policy: "cache_aware"}
}

// Aliases returns the model that each alias stands for.
func (c *PolicyConfig) Aliases() map[string]string {
	models := make(map[string]string, len(c.ModelAliases))
	for _, a := range c.ModelAliases {
		models[a.Alias] = a.Model
	}
	return models
}

func (c *PolicyConfig) check(found *violations) {
	models := map[string]string{}
	for _, a := range c.ModelAliases {
		first, ok := models[a.Alias]
		if ok && first != a.Model {
			found.add("--model-alias", a.String(), "alias '"+a.Alias+"' stands for '"+first+"' already and cannot stand for '"+a.Model+"' too")
			continue
		}
		models[a.Alias] = a.Model
	}
}

// ModelAlias is a further name of a model, written alias=model; the two differ, and neither is empty.
type ModelAlias struct {
	Alias string // what clients ask for
	Model string // what workers serve
}

// String returns the alias in the form that UnmarshalText reads.
func (a ModelAlias) String() string { return a.Alias + "=" + a.Model }

// MarshalText returns the alias in the form that UnmarshalText reads.
func (a ModelAlias) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads alias=model, split at the first "=", without blanks around either part.
func (a *ModelAlias) UnmarshalText(text []byte) error {
	alias, model, ok := strings.Cut(string(text), "=")
	alias, model = strings.TrimSpace(alias), strings.TrimSpace(model)
	switch {
	case !ok || alias == "" || model == "":
		return fmt.Errorf("'%s' is not of the form alias=model", text)
	case alias == model:
		return fmt.Errorf("'%s' names the model itself", text)
	}
	*a = ModelAlias{Alias: alias, Model: model}
	return nil
}
