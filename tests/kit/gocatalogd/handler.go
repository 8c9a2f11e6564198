package serverutil

import (
	"net/http"

	"github.com/go-logr/logr"
)

// Handler returns the handler that catalogd serves.
func Handler(l logr.Logger, cfg CatalogServerConfig) http.Handler {
	return storageServerHandlerWrapped(l, cfg)
}
