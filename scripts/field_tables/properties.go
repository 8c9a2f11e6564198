package main

import "github.com/operator-framework/operator-registry/alpha/property"

func init() {
	namedRoots[property.TypePackage] = property.Package{}
	namedRoots[property.TypePackageRequired] = property.PackageRequired{}
	namedRoots[property.TypeGVK] = property.GVK{}
	namedRoots[property.TypeGVKRequired] = property.GVKRequired{}
	namedRoots[property.TypeBundleObject] = property.BundleObject{}
	namedRoots[property.TypeCSVMetadata] = property.CSVMetadata{}
	namedRoots[property.TypeChannel] = property.Channel{}
}
