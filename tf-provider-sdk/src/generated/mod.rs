//! Rust made from `proto/`: the messages and gRPC services of the plugin protocol.
//!
//! Only this file is written by hand. The rest is made by the test `generated` (`tests/wire/generated.rs`), which fails when a file
//! here differs from a fresh run, and rewrites it under `REGENERATE=1`. Methods of [`tfplugin6::provider_server::Provider`] that an
//! implementation leaves out answer with the status `Unimplemented`, which Terraform understands.

use std::fmt;

/// The provider protocol, version 6.
#[allow(missing_docs, unreachable_pub, clippy::all)]
#[rustfmt::skip]
pub mod tfplugin6;

/// What go-plugin hosts expect beside the provider: controller, stdio and broker.
#[allow(missing_docs, unreachable_pub, clippy::all)]
#[rustfmt::skip]
pub mod plugin;

/// The standard gRPC health service.
#[allow(missing_docs, unreachable_pub, clippy::all)]
#[rustfmt::skip]
#[path = "grpc.health.v1.rs"]
pub mod health;

// Values may be secret, and `{:?}` of a whole request must not carry them into a log: only sizes are shown.
impl fmt::Debug for tfplugin6::DynamicValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DynamicValue({} bytes of msgpack, {} of JSON)",
            self.msgpack.len(),
            self.json.len()
        )
    }
}

impl fmt::Debug for tfplugin6::RawState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RawState({} bytes of JSON, {} flatmap entries)",
            self.json.len(),
            self.flatmap.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::tfplugin6;

    #[test]
    fn debug_text_of_a_request_holds_no_value() {
        let value = tfplugin6::DynamicValue {
            msgpack: b"hunter2".to_vec(),
            json: b"hunter2".to_vec(),
        };
        let state = tfplugin6::RawState {
            json: b"hunter2".to_vec(),
            flatmap: [("a".into(), "hunter2".into())].into(),
        };
        let request = tfplugin6::validate_provider_config::Request {
            config: Some(value),
        };
        let bytes_of_secret = format!("{:?}", b"hunter2");
        for text in [format!("{request:?}"), format!("{state:?}")] {
            assert!(
                !text.contains("hunter2") && !text.contains(&bytes_of_secret),
                "{text}"
            );
            assert!(text.contains("7 bytes"), "{text}");
        }
    }
}
