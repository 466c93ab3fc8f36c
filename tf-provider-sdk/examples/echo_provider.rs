//! A provider without the rest of this crate: the generated service, implemented by hand. The tests of the wire start it and play Terraform.
//!
//! Its one resource is named `echo`; the type name in a call chooses how the call behaves.

use std::process::ExitCode;
use std::time::Duration;

use tf_provider_sdk::generated::tfplugin6::provider_server::Provider;
use tf_provider_sdk::generated::tfplugin6::{
    Diagnostic, DynamicValue, ServerCapabilities, StringKind, apply_resource_change,
    configure_provider, diagnostic, get_provider_schema, plan_resource_change, read_resource,
    schema, stop_provider, upgrade_resource_state, validate_provider_config,
    validate_resource_config,
};
use tf_provider_sdk::log::redact::redact;
use tf_provider_sdk::panic::guard;
use tf_provider_sdk::serve::{self, ServeOptions};
use tf_provider_sdk::stop::{Stop, StopToken};
use tonic::{Request, Response, Status, async_trait};

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let options = ServeOptions {
        provider_address: "registry.terraform.io/loomplane/echo",
        name: "echo",
        debug: std::env::args()
            .nth(1)
            .is_some_and(|argument| argument == "--debug"),
    };
    serve::run(options, |stop| Echo { stop })
}

struct Echo {
    stop: Stop,
}

fn error(summary: &str, detail: String) -> Diagnostic {
    Diagnostic {
        severity: diagnostic::Severity::Error.into(),
        summary: summary.to_owned(),
        detail,
        attribute: None,
    }
}

fn schema() -> tf_provider_sdk::generated::tfplugin6::Schema {
    let value = schema::Attribute {
        name: "value".to_owned(),
        r#type: b"\"string\"".to_vec(),
        description: "What to say.".to_owned(),
        description_kind: StringKind::Markdown.into(),
        optional: true,
        ..Default::default()
    };
    tf_provider_sdk::generated::tfplugin6::Schema {
        version: 0,
        block: Some(schema::Block {
            attributes: vec![value],
            ..Default::default()
        }),
    }
}

/// An apply that takes its time: it ends when it is told to, unless it is stubborn.
async fn apply(
    request: apply_resource_change::Request,
    token: StopToken,
) -> apply_resource_change::Response {
    let work = async {
        let time = match request.type_name.as_str() {
            "echo_slow" | "echo_stubborn" => LONG,
            "echo_brief" => Duration::from_secs(3),
            _ => Duration::ZERO,
        };
        tokio::time::sleep(time).await;
    };
    let finished = if request.type_name == "echo_stubborn" {
        work.await;
        true
    } else {
        token.run(work).await.is_some()
    };
    let diagnostics = if finished {
        Vec::new()
    } else {
        vec![error("Stopped", "as it was told to".to_owned())]
    };
    apply_resource_change::Response {
        new_state: request.planned_state,
        private: request.planned_private,
        diagnostics,
        ..Default::default()
    }
}

#[async_trait]
impl Provider for Echo {
    async fn get_provider_schema(
        &self,
        _request: Request<get_provider_schema::Request>,
    ) -> Result<Response<get_provider_schema::Response>, Status> {
        Ok(Response::new(get_provider_schema::Response {
            provider: Some(schema()),
            resource_schemas: [("echo".to_owned(), schema())].into(),
            server_capabilities: Some(ServerCapabilities {
                plan_destroy: true,
                ..Default::default()
            }),
            ..Default::default()
        }))
    }

    async fn validate_provider_config(
        &self,
        _request: Request<validate_provider_config::Request>,
    ) -> Result<Response<validate_provider_config::Response>, Status> {
        Ok(Response::new(validate_provider_config::Response::default()))
    }

    async fn validate_resource_config(
        &self,
        _request: Request<validate_resource_config::Request>,
    ) -> Result<Response<validate_resource_config::Response>, Status> {
        Ok(Response::new(validate_resource_config::Response::default()))
    }

    async fn configure_provider(
        &self,
        request: Request<configure_provider::Request>,
    ) -> Result<Response<configure_provider::Response>, Status> {
        redact("a-secret-of-the-echo");
        tracing::info!(target: "echo", terraform = request.into_inner().terraform_version, "configured with a-secret-of-the-echo");
        Ok(Response::new(configure_provider::Response::default()))
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<upgrade_resource_state::Request>,
    ) -> Result<Response<upgrade_resource_state::Response>, Status> {
        let json = request.into_inner().raw_state.unwrap_or_default().json;
        let upgraded_state = Some(DynamicValue {
            msgpack: Vec::new(),
            json,
        });
        Ok(Response::new(upgrade_resource_state::Response {
            upgraded_state,
            ..Default::default()
        }))
    }

    async fn read_resource(
        &self,
        request: Request<read_resource::Request>,
    ) -> Result<Response<read_resource::Response>, Status> {
        let request = request.into_inner();
        let read = async {
            assert!(request.type_name != "echo_panic", "the echo fell silent");
            request.current_state
        };
        let response = match guard(read).await {
            Ok(new_state) => read_resource::Response {
                new_state,
                private: request.private,
                ..Default::default()
            },
            Err(panic) => read_resource::Response {
                diagnostics: vec![error("Panic", panic.to_string())],
                ..Default::default()
            },
        };
        Ok(Response::new(response))
    }

    async fn plan_resource_change(
        &self,
        request: Request<plan_resource_change::Request>,
    ) -> Result<Response<plan_resource_change::Response>, Status> {
        let request = request.into_inner();
        // On purpose, no guard.
        assert!(request.type_name != "echo_panic", "nobody guards this");
        let planned_state = request.proposed_new_state;
        Ok(Response::new(plan_resource_change::Response {
            planned_state,
            ..Default::default()
        }))
    }

    async fn apply_resource_change(
        &self,
        request: Request<apply_resource_change::Request>,
    ) -> Result<Response<apply_resource_change::Response>, Status> {
        let token = self.stop.token();
        Ok(Response::new(apply(request.into_inner(), token).await))
    }

    async fn stop_provider(
        &self,
        _request: Request<stop_provider::Request>,
    ) -> Result<Response<stop_provider::Response>, Status> {
        self.stop.stop();
        Ok(Response::new(stop_provider::Response::default()))
    }
}
