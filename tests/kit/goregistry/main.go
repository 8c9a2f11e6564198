// Command goregistry serves the registry of go-containerregistry, with the referrers API, on a free loopback port.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, registry.New(registry.WithReferrersSupport(true))))
}
