package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const patience = 30 * time.Second

// call is one call to make: the name of a client's method, and its arguments but for the context.
type call struct {
	Method    string   `json:"method"`
	Arguments []string `json:"arguments"`
}

// outcome is what came of a call: an answer, or the status code and text of an error.
type outcome struct {
	Answer interface{} `json:"answer,omitempty"`
	Code   string      `json:"code,omitempty"`
	Text   string      `json:"text,omitempty"`
}

type method func(ctx context.Context, c *client.Client, arguments []string) (interface{}, error)

var methods = map[string]method{
	"HealthCheck": func(ctx context.Context, c *client.Client, _ []string) (interface{}, error) {
		return c.HealthCheck(ctx, patience)
	},
	"GetPackage": func(ctx context.Context, c *client.Client, a []string) (interface{}, error) {
		return message(c.GetPackage(ctx, a[0]))
	},
	"GetBundle": func(ctx context.Context, c *client.Client, a []string) (interface{}, error) {
		return message(c.GetBundle(ctx, a[0], a[1], a[2]))
	},
	"GetBundleInPackageChannel": func(ctx context.Context, c *client.Client, a []string) (interface{}, error) {
		return message(c.GetBundleInPackageChannel(ctx, a[0], a[1]))
	},
	"GetReplacementBundleInPackageChannel": func(ctx context.Context, c *client.Client, a []string) (interface{}, error) {
		return message(c.GetReplacementBundleInPackageChannel(ctx, a[0], a[1], a[2]))
	},
	"GetBundleThatProvides": func(ctx context.Context, c *client.Client, a []string) (interface{}, error) {
		return message(c.GetBundleThatProvides(ctx, a[0], a[1], a[2]))
	},
	"ListBundles":          listBundles,
	"AbandonedListBundles": abandonedListBundles,
	"Models":               models,
}

func makeCalls(address string) error {
	var calls []call
	if err := read(&calls); err != nil {
		return err
	}
	registry, err := client.NewClient(address)
	if err != nil {
		return err
	}
	defer registry.Close()
	outcomes := []outcome{}
	for _, one := range calls {
		made, known := methods[one.Method]
		if !known {
			return fmt.Errorf("no method %q", one.Method)
		}
		outcomes = append(outcomes, outcomeOf(made, registry, one.Arguments))
	}
	return print(outcomes)
}

func outcomeOf(made method, registry *client.Client, arguments []string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := made(ctx, registry, arguments)
	if err != nil {
		return outcome{Code: status.Code(err).String(), Text: status.Convert(err).Message()}
	}
	return outcome{Answer: answer}
}

// message is an answer in the JSON form of protocol buffers.
func message(answer proto.Message, err error) (interface{}, error) {
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(answer)
	return json.RawMessage(text), err
}

func listBundles(ctx context.Context, registry *client.Client, _ []string) (interface{}, error) {
	return eachBundle(ctx, registry, func(bundle *api.Bundle) (interface{}, error) {
		return message(bundle, nil)
	})
}

// models are the bundles as the reference converts them for file-based catalogs: it reads their properties and
// dependencies, and fails at what it can't read.
func models(ctx context.Context, registry *client.Client, _ []string) (interface{}, error) {
	return eachBundle(ctx, registry, func(bundle *api.Bundle) (interface{}, error) {
		model, err := api.ConvertAPIBundleToModelBundle(bundle)
		if err != nil {
			return nil, fmt.Errorf("%s: %v", bundle.GetCsvName(), err)
		}
		return map[string]interface{}{"name": model.Name, "properties": model.Properties}, nil
	})
}

func eachBundle(
	ctx context.Context, registry *client.Client, show func(*api.Bundle) (interface{}, error),
) (interface{}, error) {
	bundles, err := registry.ListBundles(ctx)
	if err != nil {
		return nil, err
	}
	shown := []interface{}{}
	for bundle := bundles.Next(); bundle != nil; bundle = bundles.Next() {
		one, err := show(bundle)
		if err != nil {
			return nil, err
		}
		shown = append(shown, one)
	}
	return shown, bundles.Error()
}

// abandonedListBundles takes the first bundle, and goes away; what had been sent by then may still come.
func abandonedListBundles(ctx context.Context, registry *client.Client, _ []string) (interface{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bundles, err := registry.ListBundles(ctx)
	if err != nil {
		return nil, err
	}
	first := bundles.Next()
	if first == nil {
		return nil, bundles.Error()
	}
	cancel()
	for bundles.Next() != nil {
	}
	if err := bundles.Error(); err != nil && status.Code(err) != codes.Canceled {
		return nil, err
	}
	return message(first, nil)
}
