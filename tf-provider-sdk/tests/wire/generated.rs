//! The committed Rust under `src/generated` is what `proto/` gives today.

use std::path::Path;

const FILES: [&str; 3] = ["tfplugin6.rs", "plugin.rs", "grpc.health.v1.rs"];

#[test]
fn generated_code_equals_a_fresh_run() {
    let fresh = tempfile::tempdir().expect("a folder");
    tonic_prost_build::configure()
        .out_dir(fresh.path())
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .generate_default_stubs(true)
        // Schemas and functions are sent in one order, always.
        .btree_map(".")
        // Their Debug, in generated/mod.rs, shows no value.
        .skip_debug([".tfplugin6.DynamicValue", ".tfplugin6.RawState"])
        .compile_fds(super::proto::compile())
        .expect("proto/ generates");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    for name in FILES {
        let text = std::fs::read_to_string(fresh.path().join(name)).expect("generated");
        let place = committed.join(name);
        if std::env::var_os("REGENERATE").is_some() {
            std::fs::write(&place, &text).expect("written");
        }
        let found = std::fs::read_to_string(&place).expect("committed");
        // No assert_eq: thousands of lines of difference help nobody.
        assert!(
            found == text,
            "src/generated/{name} is not what proto/ gives: run `REGENERATE=1 cargo test -p tf-provider-sdk --test wire generated`"
        );
    }
}
