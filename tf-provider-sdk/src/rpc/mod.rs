//! The Provider service: each call translates, calls, translates back, and never panics through.
//!
//! - here: what the calls share
//! - `convert.rs`: between protocol messages and our types; `schema.rs`: schemas
//! - `provider.rs resource.rs identity.rs data.rs function.rs ephemeral.rs`: the calls, by what they are about
//!
//! Calls that are not offered (list resources, actions, state stores) answer `Unimplemented`, the default of the generated trait.

mod convert;
mod data;
mod ephemeral;
mod function;
mod identity;
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
    erased::{AnyDataSource, AnyEphemeral, AnyFunction, AnyResource, At, Prepared, Role},
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
    /// What is wrong with the offers themselves.
    faults: Diagnostics,
}

impl<P: Provider> Service<P> {
    /// The service of `provider`; `stop` is the switch of the server that runs it.
    pub fn new(provider: P, stop: Stop) -> Self {
        let offers = provider.offers();
        let mut faults = Diagnostics::none();
        Self {
            provider,
            resources: by_name(offers.resources, |it| it.name(), &mut faults),
            data_sources: by_name(offers.data_sources, |it| it.name(), &mut faults),
            ephemerals: by_name(offers.ephemerals, |it| it.name(), &mut faults),
            functions: by_name(offers.functions, |it| it.name(), &mut faults),
            config: OnceLock::new(),
            client: RwLock::new(None),
            stop,
            faults,
        }
    }

    fn config(&self) -> Result<&Prepared, Diagnostic> {
        let prepared = self
            .config
            .get_or_init(|| Prepared::of::<P::Config>(Role::Provider, 0));
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

/// A list by name. Of two with the same name one could never be reached.
fn by_name<T: ?Sized>(
    all: Vec<Box<T>>,
    name: impl Fn(&T) -> &'static str,
    faults: &mut Diagnostics,
) -> BTreeMap<&'static str, Box<T>> {
    let mut by_name = BTreeMap::new();
    for it in all {
        let name = name(&it);
        if by_name.insert(name, it).is_some() {
            faults.push(Diagnostic::error(
                format!("{name} is offered twice"),
                "This is a bug in the provider: please report it.",
            ));
        }
    }
    by_name
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
        Err(message) => failed(to_diagnostics(panicked(rpc, subject, &message).into())),
    };
    tracing::trace!(tf_rpc = rpc, tf_resource_type = subject, "answered");
    Ok(Response::new(answer))
}

/// What to tell the user of a panic.
fn panicked(rpc: &str, subject: &str, message: &panic::PanicMessage) -> Diagnostic {
    let subject = if subject.is_empty() {
        "the provider"
    } else {
        subject
    };
    Diagnostic::error(
        "The provider failed unexpectedly",
        format!(
            "{rpc} of {subject} ended unexpectedly: {message}.\nThis is a bug in the provider: please report it with this text. What was stored before is kept; run a plan to see what is really there."
        ),
    )
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

/// Implements the generated trait: each call by the function of the same name in the room named after `in`, guarded. In an answer after a
/// panic, the fields in braces are copied from the request.
macro_rules! calls {
    ($($method:ident as $rpc:literal in $room:ident $(of $subject:ident)? $(keeping { $($kept:ident: $from:ident),* })?;)*) => {
        #[async_trait]
        impl<P: Provider> pb::provider_server::Provider for Service<P> {
            $(async fn $method(
                &self,
                request: Request<pb::$method::Request>,
            ) -> Result<Response<pb::$method::Response>, Status> {
                let request = request.into_inner();
                #[allow(clippy::needless_update, reason = "some answers have no further field")]
                let failed = |diagnostics| pb::$method::Response {
                    diagnostics,
                    $($($kept: request.$from.clone(),)*)?
                    ..Default::default()
                };
                let subject = calls!(@subject request $($subject)?);
                call($rpc, subject, $room::$method(self, &request), failed).await
            })*

            async fn call_function(
                &self,
                request: Request<pb::call_function::Request>,
            ) -> Result<Response<pb::call_function::Response>, Status> {
                let request = request.into_inner();
                let failed = |diagnostics: Vec<pb::Diagnostic>| pb::call_function::Response {
                    error: diagnostics.into_iter().next().map(|why| pb::FunctionError {
                        text: why.detail,
                        function_argument: None,
                    }),
                    ..Default::default()
                };
                let work = function::call_function(self, &request);
                call("CallFunction", &request.name, work, failed).await
            }

            async fn stop_provider(
                &self,
                _: Request<pb::stop_provider::Request>,
            ) -> Result<Response<pb::stop_provider::Response>, Status> {
                self.stop.stop();
                Ok(Response::new(pb::stop_provider::Response::default()))
            }
        }
    };
    (@subject $request:ident $subject:ident) => { $request.$subject.as_str() };
    (@subject $request:ident) => { "" };
}

calls! {
    get_metadata as "GetMetadata" in provider;
    get_provider_schema as "GetProviderSchema" in provider;
    get_resource_identity_schemas as "GetResourceIdentitySchemas" in provider;
    validate_provider_config as "ValidateProviderConfig" in provider;
    configure_provider as "ConfigureProvider" in provider;
    validate_resource_config as "ValidateResourceConfig" in resource of type_name;
    upgrade_resource_state as "UpgradeResourceState" in resource of type_name;
    upgrade_resource_identity as "UpgradeResourceIdentity" in identity of type_name;
    read_resource as "ReadResource" in resource of type_name
        keeping { new_state: current_state, private: private, new_identity: current_identity };
    plan_resource_change as "PlanResourceChange" in resource of type_name;
    apply_resource_change as "ApplyResourceChange" in resource of type_name
        keeping { new_state: prior_state, private: planned_private, new_identity: planned_identity };
    import_resource_state as "ImportResourceState" in resource of type_name;
    move_resource_state as "MoveResourceState" in resource of target_type_name;
    validate_data_resource_config as "ValidateDataResourceConfig" in data of type_name;
    read_data_source as "ReadDataSource" in data of type_name;
    validate_ephemeral_resource_config as "ValidateEphemeralResourceConfig" in ephemeral of type_name;
    open_ephemeral_resource as "OpenEphemeralResource" in ephemeral of type_name;
    renew_ephemeral_resource as "RenewEphemeralResource" in ephemeral of type_name;
    close_ephemeral_resource as "CloseEphemeralResource" in ephemeral of type_name;
    get_functions as "GetFunctions" in function;
}
