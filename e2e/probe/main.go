// Command probe is what kubectl cannot do in `make e2e`: a small server to run in a pod, and clients that put load on a cluster.
// It knows nothing about mctunnel.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) error{
		"hold":     hold,     // an upgraded connection, and how it ends
		"serve":    serve,    // in the pod: /ping and /bytes
		"storm":    storm,    // many watches and many requests at once
		"beside":   beside,   // small requests, with and without a large download
		"download": download, // that download
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: probe hold|serve|storm|beside|download FLAGS")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
