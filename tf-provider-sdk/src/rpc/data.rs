//! Calls about a data source.

use super::{
    Service,
    convert::{from_dynamic, to_diagnostics, to_dynamic},
    split,
};
use crate::{
    context::Shared,
    diagnostic::{Diagnostic, Diagnostics},
    generated::tfplugin6 as pb,
    provider::Provider,
};

pub(super) async fn validate_data_resource_config<P: Provider>(
    service: &Service<P>,
    request: &pb::validate_data_resource_config::Request,
) -> pb::validate_data_resource_config::Response {
    let checked = || -> Result<Diagnostics, Diagnostic> {
        let data_source = service.data_source(&request.type_name)?;
        let prepared = data_source.ready()?;
        Ok(data_source.validate(from_dynamic(request.config.as_ref(), &prepared.ty)?))
    };
    let report = checked().unwrap_or_else(Diagnostics::from);
    pb::validate_data_resource_config::Response {
        diagnostics: to_diagnostics(report),
    }
}

pub(super) async fn read_data_source<P: Provider>(
    service: &Service<P>,
    request: &pb::read_data_source::Request,
) -> pb::read_data_source::Response {
    let (client, shared) = (service.client(), Shared::default());
    let at = service.at(&client, &shared);
    let read = async {
        let data_source = service.data_source(&request.type_name)?;
        let prepared = data_source.ready()?;
        let config = from_dynamic(request.config.as_ref(), &prepared.ty)?;
        let state = data_source.read(&config, &at).await?;
        Ok(to_dynamic(&state, &prepared.ty)?)
    };
    let (state, report) = split(read.await, &shared);
    pb::read_data_source::Response {
        state,
        diagnostics: to_diagnostics(report),
        deferred: None,
    }
}
