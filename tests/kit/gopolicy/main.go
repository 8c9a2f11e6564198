// Command gopolicy evaluates signature policies with containers/image, the library of podman, skopeo and CRI-O.
//
// It reads a list of cases in JSON from stdin and writes a list of results in JSON to stdout.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/containers/image/v5/docker"
	"github.com/containers/image/v5/image"
	"github.com/containers/image/v5/oci/archive"
	"github.com/containers/image/v5/oci/layout"
	"github.com/containers/image/v5/pkg/shortnames"
	"github.com/containers/image/v5/signature"
	"github.com/containers/image/v5/types"
)

type testCase struct {
	Policy        string `json:"policy"`
	Image         string `json:"image"` // "" only parses the policy
	RegistriesDir string `json:"registriesDir"`
	Registries    string `json:"registries"`
}

type result struct {
	Accepted bool   `json:"accepted"`
	Invalid  bool   `json:"invalid"` // the policy cannot be parsed
	Reason   string `json:"reason"`
}

func main() {
	var cases []testCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	results := make([]result, len(cases))
	for i, each := range cases {
		results[i] = evaluate(each)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func evaluate(each testCase) result {
	policy, err := signature.NewPolicyFromFile(each.Policy)
	if err != nil {
		return result{Invalid: true, Reason: err.Error()}
	}
	if each.Image == "" {
		return result{Accepted: true}
	}
	if err := allow(policy, each); err != nil {
		return result{Reason: err.Error()}
	}
	return result{Accepted: true}
}

func allow(policy *signature.Policy, each testCase) error {
	ctx := context.Background()
	sys := &types.SystemContext{
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue,
		RegistriesDirPath:           each.RegistriesDir,
		SystemRegistriesConfPath:    each.Registries,
		SystemRegistriesConfDirPath: each.RegistriesDir,
		UserShortNameAliasConfPath:  each.Registries + ".aliases",
	}
	ref, err := parse(sys, each.Image)
	if err != nil {
		return err
	}
	policyContext, err := signature.NewPolicyContext(policy)
	if err != nil {
		return err
	}
	defer policyContext.Destroy()
	source, err := ref.NewImageSource(ctx, sys)
	if err != nil {
		return err
	}
	defer source.Close()
	allowed, err := policyContext.IsRunningImageAllowed(ctx, image.UnparsedInstance(source, nil))
	if err == nil && !allowed {
		err = fmt.Errorf("not allowed")
	}
	return err
}

// parse resolves short names as podman does.
func parse(sys *types.SystemContext, name string) (types.ImageReference, error) {
	transport, rest, _ := strings.Cut(name, ":")
	switch transport {
	case "docker":
		return docker.ParseReference(rest)
	case "oci":
		return layout.ParseReference(rest)
	case "oci-archive":
		return archive.ParseReference(rest)
	}
	resolved, err := shortnames.Resolve(sys, name)
	if err != nil {
		return nil, err
	}
	return docker.NewReference(resolved.PullCandidates[0].Value)
}
