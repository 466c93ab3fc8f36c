// The peer with the very schema of the provider that is measured: what `terraform providers schema -json` printed of it
// (PEER_SCHEMA names the file) is declared again on terraform-plugin-framework, attribute by attribute. Most of a plan's time is
// core's, and grows with the attributes: only providers of one schema can be compared by wall time.
//
// It does less than a real provider: no client, no validators, no plan modifiers, no defaults. The file is read when core asks for
// the schema, after the handshake, so that start-up is the framework's own.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	pschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type attribute struct {
	Type       json.RawMessage `json:"type"`
	NestedType *nested         `json:"nested_type"`
	Required   bool            `json:"required"`
	Optional   bool            `json:"optional"`
	Computed   bool            `json:"computed"`
	Sensitive  bool            `json:"sensitive"`
	WriteOnly  bool            `json:"write_only"`
}

type nested struct {
	Attributes  map[string]attribute `json:"attributes"`
	NestingMode string               `json:"nesting_mode"`
}

type block struct {
	Block struct {
		Attributes map[string]attribute `json:"attributes"`
	} `json:"block"`
}

type providerSchema struct {
	Provider    block            `json:"provider"`
	Resources   map[string]block `json:"resource_schemas"`
	DataSources map[string]block `json:"data_source_schemas"`
}

var read = sync.OnceValue(func() providerSchema {
	text, err := os.ReadFile(os.Getenv("PEER_SCHEMA"))
	if err != nil {
		log.Fatal(err)
	}
	var all struct {
		Schemas map[string]providerSchema `json:"provider_schemas"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		log.Fatal(err)
	}
	for _, one := range all.Schemas {
		return one
	}
	log.Fatal("PEER_SCHEMA holds no provider")
	panic("unreachable")
})

func typeOf(raw json.RawMessage) attr.Type {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		switch name {
		case "string":
			return types.StringType
		case "number":
			return types.NumberType
		case "bool":
			return types.BoolType
		case "dynamic":
			return types.DynamicType
		}
		log.Fatalf("unknown type %s", name)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 2 {
		log.Fatalf("unknown type %s", raw)
	}
	kind := strings.Trim(string(parts[0]), `"`)
	switch kind {
	case "list":
		return types.ListType{ElemType: typeOf(parts[1])}
	case "set":
		return types.SetType{ElemType: typeOf(parts[1])}
	case "map":
		return types.MapType{ElemType: typeOf(parts[1])}
	case "object":
		var members map[string]json.RawMessage
		if err := json.Unmarshal(parts[1], &members); err != nil {
			log.Fatal(err)
		}
		object := types.ObjectType{AttrTypes: map[string]attr.Type{}}
		for name, raw := range members {
			object.AttrTypes[name] = typeOf(raw)
		}
		return object
	}
	log.Fatalf("unknown type %s", raw)
	return nil
}

func attributes(all map[string]attribute) map[string]schema.Attribute {
	made := map[string]schema.Attribute{}
	for name, a := range all {
		if a.NestedType != nil {
			inner := attributes(a.NestedType.Attributes)
			object := schema.NestedAttributeObject{Attributes: inner}
			switch a.NestedType.NestingMode {
			case "single":
				made[name] = schema.SingleNestedAttribute{Attributes: inner, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			case "list":
				made[name] = schema.ListNestedAttribute{NestedObject: object, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			case "set":
				made[name] = schema.SetNestedAttribute{NestedObject: object, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive}
			case "map":
				made[name] = schema.MapNestedAttribute{NestedObject: object, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			default:
				log.Fatalf("unknown nesting %s", a.NestedType.NestingMode)
			}
			continue
		}
		switch t := typeOf(a.Type).(type) {
		case types.ListType:
			made[name] = schema.ListAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
		case types.SetType:
			made[name] = schema.SetAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive}
		case types.MapType:
			made[name] = schema.MapAttribute{ElementType: t.ElemType, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
		case types.ObjectType:
			made[name] = schema.ObjectAttribute{AttributeTypes: t.AttrTypes, Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
		default:
			switch t {
			case types.StringType:
				made[name] = schema.StringAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			case types.NumberType:
				made[name] = schema.NumberAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			case types.BoolType:
				made[name] = schema.BoolAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			default:
				made[name] = schema.DynamicAttribute{Required: a.Required, Optional: a.Optional, Computed: a.Computed, Sensitive: a.Sensitive, WriteOnly: a.WriteOnly}
			}
		}
	}
	return made
}

type peer struct{}

func (peer) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "peer"
}

// The provider's own arguments are few and read once: one is enough.
func (peer) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = pschema.Schema{Attributes: map[string]pschema.Attribute{"config_path": pschema.StringAttribute{Optional: true}}}
}
func (peer) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (peer) Resources(context.Context) []func() resource.Resource {
	var all []func() resource.Resource
	for name, one := range read().Resources {
		all = append(all, func() resource.Resource { return service{suffix(name), one} })
	}
	return all
}

func (peer) DataSources(context.Context) []func() datasource.DataSource {
	var all []func() datasource.DataSource
	for name := range read().DataSources {
		all = append(all, func() datasource.DataSource { return source{suffix(name)} })
	}
	return all
}

// suffix is what follows the provider's name.
func suffix(name string) string {
	_, rest, _ := strings.Cut(name, "_")
	return rest
}

type service struct {
	name string
	of   block
}

func (s service) Metadata(_ context.Context, q resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = q.ProviderTypeName + "_" + s.name
}
func (s service) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: attributes(s.of.Block.Attributes)}
}
func (service) Create(_ context.Context, _ resource.CreateRequest, r *resource.CreateResponse) {
	r.Diagnostics.AddError("This peer only plans", "It is there for the bench.")
}
func (service) Read(context.Context, resource.ReadRequest, *resource.ReadResponse)       {}
func (service) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}
func (service) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// The data sources of a plan without any are only named.
type source struct{ name string }

func (s source) Metadata(_ context.Context, q datasource.MetadataRequest, r *datasource.MetadataResponse) {
	r.TypeName = q.ProviderTypeName + "_" + s.name
}
func (source) Schema(_ context.Context, _ datasource.SchemaRequest, r *datasource.SchemaResponse) {
	r.Schema = dschema.Schema{Attributes: map[string]dschema.Attribute{"id": dschema.StringAttribute{Computed: true}}}
}
func (source) Read(context.Context, datasource.ReadRequest, *datasource.ReadResponse) {}

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return peer{} },
		providerserver.ServeOpts{Address: "registry.terraform.io/example/peer", ProtocolVersion: 6})
	if err != nil {
		log.Fatal(err)
	}
}
