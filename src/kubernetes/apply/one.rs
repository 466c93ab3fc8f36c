//! One object at a time: create and only create, finish a creation, apply.

use kube::core::params::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::objects::{Kind, Metadata, OnlyMetadata};
use super::super::workload::{FIELD_MANAGER, ServiceSpec, UNFINISHED};
use super::{ApplyOptions, Step, hold};

impl Cluster {
    /// Creates one object, and only creates it. Its answer says who manages what, so that the creation can be finished without another look.
    pub(super) async fn post(
        &self,
        spec: &ServiceSpec,
        step: &Step,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<Posted, Error> {
        let object = step.object(&spec.namespace);
        let doing = format!("create {object}");
        let mut body = step.body.clone();
        body["metadata"]["labels"][UNFINISHED] = json!(hold::mark(&options.token));
        let data = serde_json::to_vec(&body).map_err(|error| self.malformed(&doing, error))?;
        let params = PostParams {
            dry_run: options.dry_run,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let request = step
            .kind
            .request(&spec.namespace)
            .create(&params, data)
            .map(strict);
        match self
            .call::<OnlyMetadata>(&doing, Some(&object), request, cancel)
            .await
        {
            Ok(made) => Ok(Posted::Made(made.metadata)),
            Err(Error::Refused {
                code: 409,
                message,
                cluster,
                ..
            }) => {
                // Ours when an earlier try arrived and only its answer was lost.
                let there = self
                    .find_metadata(step.kind, &spec.namespace, step.name(), cancel)
                    .await?;
                match there {
                    Some(metadata)
                        if metadata.unfinished_token(&spec.name)
                            == Some(options.token.as_str()) =>
                    {
                        Ok(Posted::Made(metadata))
                    }
                    Some(_) => Ok(Posted::There),
                    // 409 without the object: its namespace is being deleted, or a webhook says so.
                    None => Err(Error::Refused {
                        cluster,
                        doing,
                        code: 409,
                        message,
                    }),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the mark off a created object and makes our ownership that of server-side apply: a POST's is another kind, and
    /// would keep later applies from removing what the POST set. `known` is what was last seen of the object.
    pub(super) async fn finish(
        &self,
        spec: &ServiceSpec,
        step: &Step,
        known: &Metadata,
        mark: Mark<'_>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        self.finish_object(
            step.kind,
            &spec.namespace,
            step.name(),
            &spec.name,
            known,
            mark,
            cancel,
        )
        .await
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "two private callers; a struct would only rename the arguments"
    )]
    pub(super) async fn finish_object(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        service: &str,
        known: &Metadata,
        mark: Mark<'_>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let object = kind.object(namespace, name);
        let doing = format!("finish the creation of {object}");
        // Controllers write too (a Deployment's first status comes at once), so positions can move in between: mostly by one, since a
        // controller's entry comes before ours. That is worth a try before another look.
        let mut seen = vec![(known.clone(), 1), (known.clone(), 0)];
        for _ in 0..FINISH_TRIES {
            let (metadata, moved) = match seen.pop() {
                Some(guess) => guess,
                None => (
                    self.find_metadata(kind, namespace, name, cancel)
                        .await?
                        .ok_or_else(|| Error::NotFound {
                            cluster: self.inner.name.clone(),
                            doing: doing.clone(),
                            message: "it was deleted meanwhile".to_owned(),
                        })?,
                    0,
                ),
            };
            if let Mark::RemoveOf(token) = mark
                && metadata
                    .unfinished_token(service)
                    .is_some_and(|found| found != token)
            {
                return Err(self.taken_over(object));
            }
            let patch = finishing(&metadata, &known.uid, mark, moved);
            if patch.len() == 1 {
                return Ok(());
            }
            match self
                .patch(kind, namespace, name, &doing, &patch, cancel)
                .await
            {
                Ok(()) => return Ok(()),
                // A `test` that no longer holds (422), or a write at the same time (409).
                Err(
                    Error::Refused {
                        code: 409 | 422, ..
                    }
                    | Error::Conflict { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Refused {
            cluster: self.inner.name.clone(),
            doing,
            code: 409,
            message: "others keep changing it".to_owned(),
        })
    }

    /// A JSON patch: all of its operations or none.
    pub(super) async fn patch(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        doing: &str,
        operations: &[Value],
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let operations: kube::core::params::Patch<Value> = Patch::Merge(json!(operations));
        let request = kind
            .request(namespace)
            .patch(name, &params, &operations)
            .map(json_patch);
        self.send(doing, Some(&kind.object(namespace, name)), request, cancel)
            .await
            .map(drop)
    }

    /// Server-side apply of one object that is there, bound to its uid.
    pub(super) async fn apply_step(
        &self,
        spec: &ServiceSpec,
        step: &Step,
        uid: Option<&str>,
        token: Option<&str>,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<Metadata, Error> {
        let object = step.object(&spec.namespace);
        let doing = format!("apply {object}");
        let mut body = step.body.clone();
        if let Some(uid) = uid {
            body["metadata"]["uid"] = json!(uid);
        }
        if let Some(token) = token {
            body["metadata"]["labels"][UNFINISHED] = json!(hold::mark(token));
        }
        let params = PatchParams {
            dry_run: options.dry_run,
            // What an interrupted creation of this service left is its own.
            force: options.force_conflicts || token.is_some(),
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = step
            .kind
            .request(&spec.namespace)
            .patch(step.name(), &params, &Patch::Apply(&body))
            .map(strict);
        match self
            .call::<OnlyMetadata>(&doing, Some(&object), request, cancel)
            .await
        {
            Ok(applied) => Ok(applied.metadata),
            Err(Error::Refused {
                code: 409, message, ..
            }) if message.contains("UID") => Err(Error::OtherObject {
                cluster: self.inner.name.clone(),
                object: Box::new(object),
                expected: uid.unwrap_or_default().to_owned(),
                found: "another".to_owned(),
            }),
            Err(error) => Err(error),
        }
    }
}

/// What came of a POST.
pub(super) enum Posted {
    /// The object is this creation's own.
    Made(Metadata),
    /// Something of that name was there before.
    There,
}

/// What becomes of an object's mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    /// The creation goes on.
    Keep,
    /// Whoever began it, the creation is done.
    Remove,
    /// The creation of this token is done; another's is not ours to end.
    RemoveOf(&'a str),
}

/// The JSON patch that finishes a creation, if our entry has moved by so many positions since. Its first operation only holds the uid:
/// alone it changes nothing.
fn finishing(metadata: &Metadata, uid: &str, mark: Mark<'_>, moved: usize) -> Vec<Value> {
    let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
    let created = metadata.managed_fields.iter().flatten().position(|entry| {
        entry.manager == FIELD_MANAGER && entry.operation == "Update" && entry.subresource.is_none()
    });
    let has_apply = metadata
        .managed_fields
        .iter()
        .flatten()
        .any(|entry| entry.manager == FIELD_MANAGER && entry.operation == "Apply");
    if let Some(position) = created {
        let path = format!("/metadata/managedFields/{}", position + moved);
        patch
            .push(json!({"op": "test", "path": format!("{path}/manager"), "value": FIELD_MANAGER}));
        patch.push(json!({"op": "test", "path": format!("{path}/operation"), "value": "Update"}));
        if has_apply {
            patch.push(json!({"op": "remove", "path": path}));
        } else {
            patch.push(
                json!({"op": "replace", "path": format!("{path}/operation"), "value": "Apply"}),
            );
        }
    }
    if mark != Mark::Keep
        && let Some(value) = metadata.mark()
    {
        let path = hold::path();
        patch.push(json!({"op": "test", "path": path, "value": value}));
        patch.push(json!({"op": "remove", "path": path}));
    }
    patch
}

/// Tries to finish a creation while others write to the object.
const FINISH_TRIES: u32 = 20;

/// Asks the API server to refuse fields that it does not know, instead of dropping them.
pub(in crate::kubernetes) fn strict(mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let target = request.uri().to_string();
    let joint = if target.ends_with('?') || target.ends_with('&') {
        ""
    } else if target.contains('?') {
        "&"
    } else {
        "?"
    };
    if let Ok(uri) = format!("{target}{joint}fieldValidation=Strict").parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// kube offers JSON patches only behind a feature with a crate of its own; the body is the same array.
pub(in crate::kubernetes) fn json_patch(
    mut request: http::Request<Vec<u8>>,
) -> http::Request<Vec<u8>> {
    request.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json-patch+json"),
    );
    request
}
