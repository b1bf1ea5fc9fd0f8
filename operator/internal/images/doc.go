// Package images decides which image a container runs: the resource's field,
// else the operator's RELATED_IMAGE_ environment, else the built-in default
// (behaviour A8). Each component has an image and an environment name of its
// own, so that each can be overridden alone for a mirror registry. It refuses
// to read the environment by itself.
package images
