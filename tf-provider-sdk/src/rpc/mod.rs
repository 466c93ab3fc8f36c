//! The Provider service: each call translates, calls, translates back, and never panics through.
//!
//! - here: what the calls share
//! - `convert.rs`: between protocol messages and our types; `schema.rs`: schemas
//! - `provider.rs resource.rs data.rs function.rs ephemeral.rs`: the calls, by what they are about
//!
//! Calls that are not offered (list resources, actions, state stores) answer `Unimplemented`, the default of the generated trait.

mod convert;
mod data;
mod ephemeral;
mod function;
mod provider;
mod resource;
mod schema;

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use async_trait::async_trait;
use convert::to_diagnostics;
use tonic::{Request, Response, Status};

use crate::{
    context::Shared,
    diagnostic::{Diagnostic, Diagnostics},
    erased::{AnyDataSource, AnyEphemeral, AnyFunction, AnyResource, At, Prepared},
    generated::tfplugin6 as pb,
    panic,
    provider::Provider,
    schema::SchemaError,
    stop::Stop,
};

/// A provider behind the protocol.
pub struct Service<P: Provider> {
    provider: P,
    resources: BTreeMap<&'static str, Box<dyn AnyResource<P::Client>>>,
    data_sources: BTreeMap<&'static str, Box<dyn AnyDataSource<P::Client>>>,
    ephemerals: BTreeMap<&'static str, Box<dyn AnyEphemeral<P::Client>>>,
    functions: BTreeMap<&'static str, Box<dyn AnyFunction>>,
    config: OnceLock<Result<Prepared, SchemaError>>,
    client: RwLock<Option<Arc<P::Client>>>,
    stop: Stop,
}

impl<P: Provider> Service<P> {
    /// The service of `provider`; `stop` is the switch of the server that runs it.
    pub fn new(provider: P, stop: Stop) -> Self {
        let offers = provider.offers();
        Self {
            provider,
            resources: offers
                .resources
                .into_iter()
                .map(|it| (it.name(), it))
                .collect(),
            data_sources: offers
                .data_sources
                .into_iter()
                .map(|it| (it.name(), it))
                .collect(),
            ephemerals: offers
                .ephemerals
                .into_iter()
                .map(|it| (it.name(), it))
                .collect(),
            functions: offers
                .functions
                .into_iter()
                .map(|it| (it.name(), it))
                .collect(),
            config: OnceLock::new(),
            client: RwLock::new(None),
            stop,
        }
    }

    fn config(&self) -> Result<&Prepared, Diagnostic> {
        let prepared = self.config.get_or_init(|| Prepared::of::<P::Config>(0));
        prepared
            .as_ref()
            .map_err(|why| crate::erased::schema_fault("provider", why))
    }

    /// The client, unless the provider's configuration is not known yet.
    fn client(&self) -> Option<Arc<P::Client>> {
        self.client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn at<'a>(&self, client: &'a Option<Arc<P::Client>>, shared: &'a Shared) -> At<'a, P::Client> {
        At {
            client: client.as_deref(),
            stop: self.stop.token(),
            shared,
        }
    }

    fn resource(&self, name: &str) -> Result<&dyn AnyResource<P::Client>, Diagnostic> {
        self.resources
            .get(name)
            .map(AsRef::as_ref)
            .ok_or_else(|| not_offered("resource type", name))
    }

    fn data_source(&self, name: &str) -> Result<&dyn AnyDataSource<P::Client>, Diagnostic> {
        self.data_sources
            .get(name)
            .map(AsRef::as_ref)
            .ok_or_else(|| not_offered("data source", name))
    }

    fn ephemeral(&self, name: &str) -> Result<&dyn AnyEphemeral<P::Client>, Diagnostic> {
        self.ephemerals
            .get(name)
            .map(AsRef::as_ref)
            .ok_or_else(|| not_offered("ephemeral resource type", name))
    }
}

fn not_offered(what: &str, name: &str) -> Diagnostic {
    Diagnostic::error(
        format!("Unknown {what} {name}"),
        "This version of the provider does not have it. Use a newer one.",
    )
}

/// The same on every resource, so that Terraform folds the warnings into one.
fn configuration_unknown() -> Diagnostic {
    Diagnostic::warning(
        "The provider's configuration is not known yet",
        "It comes from something that is not applied yet. Nothing was checked against the real world in this plan; apply checks before it changes anything.",
    )
}

/// Runs one call. A panic in it is answered with `failed`, given what to tell the user.
async fn call<T>(
    rpc: &'static str,
    subject: &str,
    work: impl Future<Output = T>,
    failed: impl FnOnce(Vec<pb::Diagnostic>) -> T,
) -> Result<Response<T>, Status> {
    tracing::trace!(tf_rpc = rpc, tf_resource_type = subject, "call");
    let answer = match panic::guard(work).await {
        Ok(answer) => answer,
        Err(message) => {
            let detail = format!(
                "{rpc} of {} ended unexpectedly: {message}.\nThis is a bug in the provider: please report it with this text. What was stored before is kept; run a plan to see what is really there.",
                if subject.is_empty() {
                    "the provider"
                } else {
                    subject
                }
            );
            failed(to_diagnostics(
                Diagnostic::error("The provider failed unexpectedly", detail).into(),
            ))
        }
    };
    tracing::trace!(tf_rpc = rpc, tf_resource_type = subject, "answered");
    Ok(Response::new(answer))
}

/// The value of a result, and its messages beside those that were reported on the way.
fn split<T>(result: Result<T, Diagnostics>, shared: &Shared) -> (Option<T>, Diagnostics) {
    let mut report = shared.take_report();
    match result {
        Ok(value) => (Some(value), report),
        Err(why) => {
            report.extend(why);
            (None, report)
        }
    }
}

#[async_trait]
impl<P: Provider> pb::provider_server::Provider for Service<P> {
    async fn get_metadata(
        &self,
        request: Request<pb::get_metadata::Request>,
    ) -> Result<Response<pb::get_metadata::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::get_metadata::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "GetMetadata",
            "",
            provider::get_metadata(self, request),
            failed,
        )
        .await
    }

    async fn get_provider_schema(
        &self,
        request: Request<pb::get_provider_schema::Request>,
    ) -> Result<Response<pb::get_provider_schema::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::get_provider_schema::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "GetProviderSchema",
            "",
            provider::get_provider_schema(self, request),
            failed,
        )
        .await
    }

    async fn get_resource_identity_schemas(
        &self,
        request: Request<pb::get_resource_identity_schemas::Request>,
    ) -> Result<Response<pb::get_resource_identity_schemas::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::get_resource_identity_schemas::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "GetResourceIdentitySchemas",
            "",
            provider::get_resource_identity_schemas(self, request),
            failed,
        )
        .await
    }

    async fn validate_provider_config(
        &self,
        request: Request<pb::validate_provider_config::Request>,
    ) -> Result<Response<pb::validate_provider_config::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::validate_provider_config::Response { diagnostics };
        call(
            "ValidateProviderConfig",
            "",
            provider::validate_provider_config(self, request),
            failed,
        )
        .await
    }

    async fn configure_provider(
        &self,
        request: Request<pb::configure_provider::Request>,
    ) -> Result<Response<pb::configure_provider::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::configure_provider::Response { diagnostics };
        call(
            "ConfigureProvider",
            "",
            provider::configure_provider(self, request),
            failed,
        )
        .await
    }

    async fn validate_resource_config(
        &self,
        request: Request<pb::validate_resource_config::Request>,
    ) -> Result<Response<pb::validate_resource_config::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::validate_resource_config::Response { diagnostics };
        call(
            "ValidateResourceConfig",
            &subject,
            resource::validate_resource_config(self, request),
            failed,
        )
        .await
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<pb::upgrade_resource_state::Request>,
    ) -> Result<Response<pb::upgrade_resource_state::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::upgrade_resource_state::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "UpgradeResourceState",
            &subject,
            resource::upgrade_resource_state(self, request),
            failed,
        )
        .await
    }

    async fn upgrade_resource_identity(
        &self,
        request: Request<pb::upgrade_resource_identity::Request>,
    ) -> Result<Response<pb::upgrade_resource_identity::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::upgrade_resource_identity::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "UpgradeResourceIdentity",
            &subject,
            resource::upgrade_resource_identity(self, request),
            failed,
        )
        .await
    }

    async fn read_resource(
        &self,
        request: Request<pb::read_resource::Request>,
    ) -> Result<Response<pb::read_resource::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let new_state = request.current_state.clone();
        let private = request.private.clone();
        let failed = |diagnostics| pb::read_resource::Response {
            diagnostics,
            new_state,
            private,
            ..Default::default()
        };
        call(
            "ReadResource",
            &subject,
            resource::read_resource(self, request),
            failed,
        )
        .await
    }

    async fn plan_resource_change(
        &self,
        request: Request<pb::plan_resource_change::Request>,
    ) -> Result<Response<pb::plan_resource_change::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::plan_resource_change::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "PlanResourceChange",
            &subject,
            resource::plan_resource_change(self, request),
            failed,
        )
        .await
    }

    async fn apply_resource_change(
        &self,
        request: Request<pb::apply_resource_change::Request>,
    ) -> Result<Response<pb::apply_resource_change::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let new_state = request.prior_state.clone();
        let private = request.planned_private.clone();
        let failed = |diagnostics| pb::apply_resource_change::Response {
            diagnostics,
            new_state,
            private,
            ..Default::default()
        };
        call(
            "ApplyResourceChange",
            &subject,
            resource::apply_resource_change(self, request),
            failed,
        )
        .await
    }

    async fn import_resource_state(
        &self,
        request: Request<pb::import_resource_state::Request>,
    ) -> Result<Response<pb::import_resource_state::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::import_resource_state::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "ImportResourceState",
            &subject,
            resource::import_resource_state(self, request),
            failed,
        )
        .await
    }

    async fn move_resource_state(
        &self,
        request: Request<pb::move_resource_state::Request>,
    ) -> Result<Response<pb::move_resource_state::Response>, Status> {
        let request = request.into_inner();
        let subject = request.target_type_name.clone();
        let failed = |diagnostics| pb::move_resource_state::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "MoveResourceState",
            &subject,
            resource::move_resource_state(self, request),
            failed,
        )
        .await
    }

    async fn validate_data_resource_config(
        &self,
        request: Request<pb::validate_data_resource_config::Request>,
    ) -> Result<Response<pb::validate_data_resource_config::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::validate_data_resource_config::Response { diagnostics };
        call(
            "ValidateDataResourceConfig",
            &subject,
            data::validate_data_resource_config(self, request),
            failed,
        )
        .await
    }

    async fn read_data_source(
        &self,
        request: Request<pb::read_data_source::Request>,
    ) -> Result<Response<pb::read_data_source::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::read_data_source::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "ReadDataSource",
            &subject,
            data::read_data_source(self, request),
            failed,
        )
        .await
    }

    async fn validate_ephemeral_resource_config(
        &self,
        request: Request<pb::validate_ephemeral_resource_config::Request>,
    ) -> Result<Response<pb::validate_ephemeral_resource_config::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::validate_ephemeral_resource_config::Response { diagnostics };
        call(
            "ValidateEphemeralResourceConfig",
            &subject,
            ephemeral::validate_ephemeral_resource_config(self, request),
            failed,
        )
        .await
    }

    async fn open_ephemeral_resource(
        &self,
        request: Request<pb::open_ephemeral_resource::Request>,
    ) -> Result<Response<pb::open_ephemeral_resource::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::open_ephemeral_resource::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "OpenEphemeralResource",
            &subject,
            ephemeral::open_ephemeral_resource(self, request),
            failed,
        )
        .await
    }

    async fn renew_ephemeral_resource(
        &self,
        request: Request<pb::renew_ephemeral_resource::Request>,
    ) -> Result<Response<pb::renew_ephemeral_resource::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::renew_ephemeral_resource::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "RenewEphemeralResource",
            &subject,
            ephemeral::renew_ephemeral_resource(self, request),
            failed,
        )
        .await
    }

    async fn close_ephemeral_resource(
        &self,
        request: Request<pb::close_ephemeral_resource::Request>,
    ) -> Result<Response<pb::close_ephemeral_resource::Response>, Status> {
        let request = request.into_inner();
        let subject = request.type_name.clone();
        let failed = |diagnostics| pb::close_ephemeral_resource::Response { diagnostics };
        call(
            "CloseEphemeralResource",
            &subject,
            ephemeral::close_ephemeral_resource(self, request),
            failed,
        )
        .await
    }

    async fn get_functions(
        &self,
        request: Request<pb::get_functions::Request>,
    ) -> Result<Response<pb::get_functions::Response>, Status> {
        let request = request.into_inner();
        let failed = |diagnostics| pb::get_functions::Response {
            diagnostics,
            ..Default::default()
        };
        call(
            "GetFunctions",
            "",
            function::get_functions(self, request),
            failed,
        )
        .await
    }

    async fn call_function(
        &self,
        request: Request<pb::call_function::Request>,
    ) -> Result<Response<pb::call_function::Response>, Status> {
        let request = request.into_inner();
        let subject = request.name.clone();
        let failed = |diagnostics: Vec<pb::Diagnostic>| pb::call_function::Response {
            error: diagnostics.into_iter().next().map(|why| pb::FunctionError {
                text: why.detail,
                function_argument: None,
            }),
            ..Default::default()
        };
        call(
            "CallFunction",
            &subject,
            function::call_function(self, request),
            failed,
        )
        .await
    }

    async fn stop_provider(
        &self,
        _: Request<pb::stop_provider::Request>,
    ) -> Result<Response<pb::stop_provider::Response>, Status> {
        self.stop.stop();
        Ok(Response::new(pb::stop_provider::Response::default()))
    }
}
