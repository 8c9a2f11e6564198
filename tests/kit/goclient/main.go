// Goclient shows how clients and clusters written in Go see what opmkit does.
//
// "goclient calls ADDRESS" makes the calls listed on standard input, as JSON, by the client library of the reference,
// and prints what came of each. "goclient manifests" reads a list of manifests, and tells what the types of OLM make
// of them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "calls":
		return makeCalls(arguments[1])
	case len(arguments) == 1 && arguments[0] == "manifests":
		return readManifests()
	}
	return fmt.Errorf("usage: goclient calls ADDRESS | goclient manifests")
}

func read(value interface{}) error {
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

func print(value interface{}) error {
	return json.NewEncoder(os.Stdout).Encode(value)
}
