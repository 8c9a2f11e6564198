package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	olmv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

type list struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// readManifests reads each item into its type, fails at a field that this hasn't, and prints what it understood.
func readManifests() error {
	var given list
	if err := read(&given); err != nil {
		return err
	}
	understood := []interface{}{}
	for _, item := range given.Items {
		typed, err := typedManifest(item)
		if err != nil {
			return err
		}
		understood = append(understood, typed)
	}
	return print(understood)
}

func typedManifest(item json.RawMessage) (interface{}, error) {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(item, &kind); err != nil {
		return nil, err
	}
	name := kind.APIVersion + " " + kind.Kind
	target, known := map[string]interface{}{
		"v1 Namespace":                                &corev1.Namespace{},
		"operators.coreos.com/v1 OperatorGroup":       &olmv1.OperatorGroup{},
		"operators.coreos.com/v1alpha1 CatalogSource": &v1alpha1.CatalogSource{},
		"operators.coreos.com/v1alpha1 Subscription":  &v1alpha1.Subscription{},
	}[name]
	if !known {
		return nil, fmt.Errorf("there is no type for %s", name)
	}
	decoder := json.NewDecoder(bytes.NewReader(item))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	if source, is := target.(*v1alpha1.CatalogSource); is && source.Spec.UpdateStrategy != nil {
		if problem := source.Spec.UpdateStrategy.ParsingError; problem != "" {
			return nil, fmt.Errorf("%s: %s", name, problem)
		}
	}
	return target, nil
}
