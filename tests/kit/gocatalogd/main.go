// Command catalogd serves one catalog with the storage and the HTTP handler of catalogd, without a cluster.
//
//	catalogd NAME DIRECTORY
//
// It listens on a free port of 127.0.0.1, and prints the port when it is ready. The time of the content is fixed.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/operator-framework/operator-controller/internal/catalogd/serverutil"
	"github.com/operator-framework/operator-controller/internal/catalogd/storage"
)

func main() {
	name, directory := os.Args[1], os.Args[2]
	root, err := os.MkdirTemp("", "catalogd-")
	check(err)
	defer os.RemoveAll(root)
	base := &url.URL{Scheme: "http", Host: "localhost", Path: "/catalogs/"}
	local := &storage.LocalDirV1{RootDir: root, RootURL: base, EnableMetasHandler: true}
	check(local.Store(context.Background(), name, os.DirFS(directory)))
	modified := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	check(os.Chtimes(filepath.Join(root, name, "catalog.jsonl"), modified, modified))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	handler := serverutil.Handler(logr.Discard(), serverutil.CatalogServerConfig{LocalStorage: local})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listener, handler))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
