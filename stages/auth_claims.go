package stages

// otherClaims are asked for the role where the configured one is absent.
var otherClaims = []string{"role", "roles", "groups", "group"}

// roleOf is the role that the claims of a token come to.
func (j *JWTs) roleOf(claims map[string]any) Role {
	said, there := claims[j.settings.RoleClaim]
	for _, name := range otherClaims {
		if there {
			break
		}
		said, there = claims[name]
	}
	for _, value := range textsOf(said) {
		if j.role(value) == RoleAdmin {
			return RoleAdmin
		}
	}
	return RoleUser
}

// role is what one value of a claim stands for.
func (j *JWTs) role(value string) Role {
	if len(j.settings.Roles) > 0 {
		return j.settings.Roles[value] // user if it is not in the mapping
	}
	role, _ := ParseRole(value)
	return role
}

// textsOf is a claim that is a text or a list of them; anything else in it is left out.
func textsOf(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var texts []string
		for _, element := range v {
			if s, ok := element.(string); ok {
				texts = append(texts, s)
			}
		}
		return texts
	}
	return nil
}
