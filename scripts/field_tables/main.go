// Command fieldtables prints how encoding/json decodes the Go structs of bundles, as JSON.
//
// Each struct is an object of fields and their types. A type is a scalar or the name of a struct, or one of "[]TYPE"
// (list), "{}TYPE" (map with string keys), "*TYPE" (pointer: distinguishes empty from absent) and "STRUCT|list",
// "STRUCT|bool", "STRUCT|strings" (a struct, or else a list of them, a boolean, a list of strings).
//
// Next to the structs, it prints the fields that encoding/json writes even if they have their zero value.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"

	scorecardv1alpha3 "github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The structs to print, with all structs in their fields. Of two structs with the same name, the later one gets its
// package as a prefix, as in "v1beta1.CustomResourceDefinition".
var roots = []any{
	v1alpha1.ClusterServiceVersion{},
	apiextensionsv1.CustomResourceDefinition{},
	apiextensionsv1beta1.CustomResourceDefinition{},
	metav1.PartialObjectMetadata{},
	manifests.PackageManifest{},
	policyv1.PodDisruptionBudget{},
	schedulingv1.PriorityClass{},
	rbacv1.Role{},
	rbacv1.ClusterRole{},
	rbacv1.RoleBinding{},
	rbacv1.ClusterRoleBinding{},
	appsv1.Deployment{},
	corev1.Service{},
	corev1.ServiceAccount{},
	admissionv1.ValidatingWebhookConfiguration{},
	admissionv1.MutatingWebhookConfiguration{},
	scorecardv1alpha3.Configuration{},
	v1alpha1.CatalogSource{},
	v1alpha1.Subscription{},
	operatorsv1.OperatorGroup{},
}

// Structs to print under another name than their own.
var namedRoots = map[string]any{}

// Types with their own UnmarshalJSON, and []byte.
var scalars = map[string]string{
	"encoding/json.RawMessage":                                                "any",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                           "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":           "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSON":      "any",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                           "quantity",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                               "time",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                         "intOrString",
	"github.com/operator-framework/api/pkg/lib/version.OperatorVersion":       "version",
	"github.com/operator-framework/api/pkg/lib/release.OperatorRelease":       "release",
	"github.com/operator-framework/api/pkg/operators/v1alpha1.UpdateStrategy": "any",
}

// Types whose UnmarshalJSON accepts a struct or something else, by the end of their name.
var alternatives = []struct{ suffix, alternative string }{
	{"OrStringArray", "strings"},
	{"OrArray", "list"},
	{"OrBool", "bool"},
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

type field struct{ name, kind string }

type fields []field

func (all fields) MarshalJSON() ([]byte, error) {
	members := make([]string, len(all))
	for i, one := range all {
		members[i] = fmt.Sprintf("%q:%q", one.name, one.kind)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

type table struct {
	types   map[string]reflect.Type
	structs map[string]fields
	always  map[string][]string
}

func (t *table) kindOf(goType reflect.Type) string {
	qualified := goType.PkgPath() + "." + goType.Name()
	if scalar, found := scalars[qualified]; found {
		return scalar
	}
	for _, one := range alternatives {
		if strings.HasSuffix(qualified, ".JSONSchemaProps"+one.suffix) {
			return t.addStruct(pointedStruct(goType)) + "|" + one.alternative
		}
	}
	if reflect.PointerTo(goType).Implements(unmarshaler) {
		fail("%s has its own UnmarshalJSON: add it to scalars or alternatives", qualified)
	}
	switch goType.Kind() {
	case reflect.Pointer:
		kind := t.kindOf(goType.Elem())
		if kind == "any" || strings.Contains(kind, "|") { // tell empty from absent already
			return kind
		}
		return "*" + kind
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + t.kindOf(goType.Elem())
	case reflect.Map:
		return "{}" + t.kindOf(goType.Elem())
	case reflect.Struct:
		return t.addStruct(goType)
	case reflect.Int:
		return "int64"
	case reflect.Float64:
		return "number"
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return goType.Kind().String()
	}
	fail("%s has the unsupported kind %s", qualified, goType.Kind())
	return ""
}

// pointedStruct returns the struct that the first pointer field of a struct points to.
func pointedStruct(goType reflect.Type) reflect.Type {
	for i := range goType.NumField() {
		if member := goType.Field(i).Type; member.Kind() == reflect.Pointer {
			return member.Elem()
		}
	}
	fail("%s has no pointer field", goType)
	return nil
}

func (t *table) addStruct(goType reflect.Type) string {
	name := goType.Name()
	if known, found := t.types[name]; found && known != goType {
		name = path.Base(goType.PkgPath()) + "." + name
	}
	if known, found := t.types[name]; !found {
		t.types[name] = goType
		t.structs[name] = t.fieldsOf(goType)
		if always := alwaysWritten(goType); len(always) > 0 {
			t.always[name] = always
		}
	} else if known != goType {
		fail("%s and %s have the same name", known.PkgPath(), goType.PkgPath())
	}
	return name
}

func (t *table) fieldsOf(goType reflect.Type) fields {
	found := fields{}
	for i := range goType.NumField() {
		member := goType.Field(i)
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		switch {
		case name == "-" || !member.IsExported():
		case name == "" && member.Anonymous:
			found = append(found, t.fieldsOf(member.Type)...)
		case name == "":
			found = append(found, field{member.Name, t.kindOf(member.Type)})
		default:
			found = append(found, field{name, t.kindOf(member.Type)})
		}
	}
	return found
}

// alwaysWritten returns the fields that are written even if they have their zero value.
func alwaysWritten(goType reflect.Type) []string {
	found := []string{}
	for i := range goType.NumField() {
		member := goType.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		omitted := strings.Contains(options, "omitempty") && member.Type.Kind() != reflect.Struct
		switch {
		case name == "-" || !member.IsExported():
		case name == "" && member.Anonymous:
			found = append(found, alwaysWritten(member.Type)...)
		case omitted || strings.Contains(options, "omitzero"):
		case name == "":
			found = append(found, member.Name)
		default:
			found = append(found, name)
		}
	}
	return found
}

func fail(message string, values ...any) {
	fmt.Fprintf(os.Stderr, message+"\n", values...)
	os.Exit(1)
}

func main() {
	t := &table{map[string]reflect.Type{}, map[string]fields{}, map[string][]string{}}
	for _, root := range roots {
		t.addStruct(reflect.TypeOf(root))
	}
	for name, root := range namedRoots {
		t.structs[name] = t.fieldsOf(reflect.TypeOf(root))
	}
	printed := map[string]any{"structs": t.structs, "always": t.always}
	if err := json.NewEncoder(os.Stdout).Encode(printed); err != nil {
		fail("%v", err)
	}
}
