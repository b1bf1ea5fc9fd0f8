package report

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Client reads and writes the status of one resource.
type Client struct {
	resource  dynamic.ResourceInterface
	namespace string
	name      string
}

// New makes a client of one resource.
func New(c *rest.Config, namespace, name string) (*Client, error) {
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making status client: %w", err)
	}
	gvr := schema.GroupVersionResource{Group: Group, Version: "v1alpha1", Resource: Resource}
	return &Client{resource: d.Resource(gvr).Namespace(namespace), namespace: namespace, name: name}, nil
}

// State is what the status holds now.
type State struct {
	Agent           Agent
	ResourceVersion string
}

// Read gets the status as it is.
func (c *Client) Read(ctx context.Context) (State, error) {
	u, err := c.resource.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return State{}, fmt.Errorf("reading status: %w", err)
	}
	return decode(u)
}

func decode(u *unstructured.Unstructured) (State, error) {
	b, err := u.MarshalJSON()
	if err != nil {
		return State{}, fmt.Errorf("reading status: %w", err)
	}
	var o Object
	if err := json.Unmarshal(b, &o); err != nil {
		return State{}, fmt.Errorf("reading status: %w", err)
	}
	return State{Agent: o.Status.Agent, ResourceVersion: u.GetResourceVersion()}, nil
}

// Write puts agent in place of what is there. With a resource version it
// fails with a conflict if anything has changed since that was read.
func (c *Client) Write(ctx context.Context, agent Agent, resourceVersion string) (State, error) {
	b, err := json.Marshal(Object{
		APIVersion: APIVersion, Kind: Kind,
		Metadata: Metadata{Namespace: c.namespace, Name: c.name, ResourceVersion: resourceVersion},
		Status:   Status{Agent: agent},
	})
	if err != nil {
		return State{}, fmt.Errorf("encoding status: %w", err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(b); err != nil {
		return State{}, fmt.Errorf("encoding status: %w", err)
	}
	out, err := c.resource.ApplyStatus(ctx, c.name, &u, metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
	if err != nil {
		return State{}, fmt.Errorf("writing status: %w", err)
	}
	return decode(out)
}
