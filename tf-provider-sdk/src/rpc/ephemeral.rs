//! Calls about an ephemeral resource.

use super::{
    Service,
    convert::{after, from_dynamic, to_diagnostics, to_dynamic},
    split,
};
use crate::{
    context::Shared,
    diagnostic::{Diagnostic, Diagnostics},
    generated::tfplugin6 as pb,
    provider::Provider,
};

pub(super) async fn validate_ephemeral_resource_config<P: Provider>(
    service: &Service<P>,
    request: &pb::validate_ephemeral_resource_config::Request,
) -> pb::validate_ephemeral_resource_config::Response {
    let checked = || -> Result<Diagnostics, Diagnostic> {
        let ephemeral = service.ephemeral(&request.type_name)?;
        let prepared = ephemeral.ready()?;
        Ok(ephemeral.validate(from_dynamic(request.config.as_ref(), &prepared.ty)?))
    };
    let report = checked().unwrap_or_else(Diagnostics::from);
    pb::validate_ephemeral_resource_config::Response {
        diagnostics: to_diagnostics(report),
    }
}

pub(super) async fn open_ephemeral_resource<P: Provider>(
    service: &Service<P>,
    request: &pb::open_ephemeral_resource::Request,
) -> pb::open_ephemeral_resource::Response {
    let (client, shared) = (service.client(), Shared::default());
    let at = service.at(&client, &shared);
    let open = async {
        let ephemeral = service.ephemeral(&request.type_name)?;
        let prepared = ephemeral.ready()?;
        let config = from_dynamic(request.config.as_ref(), &prepared.ty)?;
        let opened = ephemeral.open(&config, &at).await?;
        Ok(pb::open_ephemeral_resource::Response {
            result: Some(to_dynamic(&opened.value, &prepared.ty)?),
            private: Some(opened.handle),
            renew_at: opened.renew_in.and_then(after),
            ..Default::default()
        })
    };
    let (opened, report) = split(open.await, &shared);
    pb::open_ephemeral_resource::Response {
        diagnostics: to_diagnostics(report),
        ..opened.unwrap_or_default()
    }
}

pub(super) async fn renew_ephemeral_resource<P: Provider>(
    service: &Service<P>,
    request: &pb::renew_ephemeral_resource::Request,
) -> pb::renew_ephemeral_resource::Response {
    let (client, shared) = (service.client(), Shared::default());
    let at = service.at(&client, &shared);
    let renew = async {
        let renewal = service
            .ephemeral(&request.type_name)?
            .renew(request.private.clone().unwrap_or_default(), &at)
            .await?;
        Ok(pb::renew_ephemeral_resource::Response {
            renew_at: renewal.renew_in.and_then(after),
            private: Some(renewal.handle),
            ..Default::default()
        })
    };
    let (renewed, report) = split(renew.await, &shared);
    pb::renew_ephemeral_resource::Response {
        diagnostics: to_diagnostics(report),
        ..renewed.unwrap_or_default()
    }
}

pub(super) async fn close_ephemeral_resource<P: Provider>(
    service: &Service<P>,
    request: &pb::close_ephemeral_resource::Request,
) -> pb::close_ephemeral_resource::Response {
    let (client, shared) = (service.client(), Shared::default());
    let at = service.at(&client, &shared);
    let close = async {
        service
            .ephemeral(&request.type_name)?
            .close(request.private.clone().unwrap_or_default(), &at)
            .await
    };
    let (_, report) = split(close.await, &shared);
    pb::close_ephemeral_resource::Response {
        diagnostics: to_diagnostics(report),
    }
}
