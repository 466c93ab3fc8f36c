//! Reading, making, changing and deleting capacity sets.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::{Value, json};

use super::super::apply::{json_patch, strict};
use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::{Error, ObjectName};
use super::super::workload::FIELD_MANAGER;
use super::convert::{definition_of, spec_of};
use super::types::{CapacitySet, CapacitySetStatus};
use crate::capacity::set::Definition;

/// Where sets are in the API.
pub(super) const SETS: &str = "/apis/capacity.loomplane.dev/v1alpha1/capacitysets";
/// Names one creation, so that a lost answer is told from somebody else's object.
const TOKEN: &str = "capacity.loomplane.dev/creation";
/// Tries to finish a creation while others write to the object.
const FINISH_TRIES: u32 = 20;
/// How often a deletion is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A set read from a cluster.
#[derive(Debug, Clone)]
pub struct FoundSet {
    /// uid of the object.
    pub uid: String,
    /// The set.
    pub definition: Definition,
    /// Token of a creation that was not finished.
    pub creation: Option<String>,
    /// What the arbiter published.
    pub status: Option<CapacitySetStatus>,
}

fn object(name: &str) -> ObjectName {
    ObjectName {
        kind: "CapacitySet",
        namespace: String::new(),
        name: name.to_owned(),
    }
}

fn body(definition: &Definition) -> Value {
    json!({
        "apiVersion": "capacity.loomplane.dev/v1alpha1",
        "kind": "CapacitySet",
        "metadata": {"name": definition.set.name},
        "spec": spec_of(definition),
    })
}

fn found(set: CapacitySet) -> FoundSet {
    let annotations = set.metadata.annotations.as_ref();
    FoundSet {
        creation: annotations.and_then(|annotations| annotations.get(TOKEN).cloned()),
        uid: set.metadata.uid.unwrap_or_default(),
        definition: definition_of(&set.metadata.name.unwrap_or_default(), &set.spec),
        status: set.status,
    }
}

impl Cluster {
    /// A set, or `None` on a proven 404, of the object or of its kind.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn capacity_set(
        &self,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<FoundSet>, Error> {
        let object = object(name);
        let request = Request::new(SETS).get(name, &GetParams::default());
        match self
            .call::<CapacitySet>(&format!("read {object}"), Some(&object), request, cancel)
            .await
        {
            Ok(set) => Ok(Some(found(set))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every set of the cluster that this version can read, by name.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn capacity_sets(&self, cancel: &Cancel) -> Result<Vec<Definition>, Error> {
        let sets: Vec<Value> = self
            .list_all("list capacity sets", SETS, &ListParams::default(), cancel)
            .await?;
        let sets = sets
            .into_iter()
            .filter_map(|set| serde_json::from_value::<CapacitySet>(set).ok());
        let mut definitions: Vec<Definition> = sets.map(|set| found(set).definition).collect();
        definitions.sort_by(|a, b| a.set.name.cmp(&b.set.name));
        Ok(definitions)
    }

    /// Makes a set, and only makes it: a POST, since server-side apply would merge into what is there. `token` is new for each creation. Afterwards the fields
    /// are the field manager's by server-side apply, like those of any later change.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::Refused`] with the rule that it breaks, and what any request can end in.
    pub async fn create_capacity_set(
        &self,
        definition: &Definition,
        token: &str,
        cancel: &Cancel,
    ) -> Result<FoundSet, Error> {
        let name = definition.set.name.as_str();
        let object = object(name);
        let doing = format!("create {object}");
        let mut body = body(definition);
        body["metadata"]["annotations"] = json!({TOKEN: token});
        let data = serde_json::to_vec(&body).map_err(|error| self.malformed(&doing, error))?;
        let params = PostParams {
            dry_run: false,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let request = Request::new(SETS).create(&params, data).map(strict);
        let made = match self
            .call::<CapacitySet>(&doing, Some(&object), request, cancel)
            .await
        {
            Ok(made) => made,
            Err(Error::Refused { code: 409, .. }) => {
                let request = Request::new(SETS).get(name, &GetParams::default());
                let there: CapacitySet = self
                    .call(&format!("read {object}"), Some(&object), request, cancel)
                    .await?;
                let ours = there
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|annotations| annotations.get(TOKEN));
                if ours.map(String::as_str) != Some(token) {
                    return Err(self.set_exists(name));
                }
                there
            }
            Err(error) => return Err(error),
        };
        let uid = made.metadata.uid.clone().unwrap_or_default();
        self.own_by_apply(name, made, cancel).await?;
        self.update_capacity_set(&uid, definition, false, cancel)
            .await
    }

    /// Ownership by POST is another kind than that by apply, and would keep later applies from removing a pool: makes it that of server-side apply.
    async fn own_by_apply(
        &self,
        name: &str,
        made: CapacitySet,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let object = object(name);
        let doing = format!("finish the creation of {object}");
        let uid = made.metadata.uid.clone();
        let mut there = made;
        // An arbiter writes the status of a new set at once, which moves positions.
        for _ in 0..FINISH_TRIES {
            let fields = there.metadata.managed_fields.unwrap_or_default();
            let created = fields.iter().position(|entry| {
                entry.manager.as_deref() == Some(FIELD_MANAGER)
                    && entry.operation.as_deref() == Some("Update")
                    && entry.subresource.is_none()
            });
            let Some(at) = created else { return Ok(()) };
            let path = format!("/metadata/managedFields/{at}");
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": format!("{path}/manager"), "value": FIELD_MANAGER},
                {"op": "test", "path": format!("{path}/operation"), "value": "Update"},
                {"op": "replace", "path": format!("{path}/operation"), "value": "Apply"},
            ]);
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let request = Request::new(SETS)
                .patch(name, &params, &Patch::Merge(patch))
                .map(json_patch);
            match self.send(&doing, Some(&object), request, cancel).await {
                Ok(_) => return Ok(()),
                Err(
                    Error::Refused {
                        code: 409 | 422, ..
                    }
                    | Error::Conflict { .. },
                ) => {}
                Err(error) => return Err(error),
            }
            let request = Request::new(SETS).get(name, &GetParams::default());
            there = self.call(&doing, Some(&object), request, cancel).await?;
        }
        Err(Error::Refused {
            cluster: self.inner.name.clone(),
            doing,
            code: 409,
            message: "others keep changing it".to_owned(),
        })
    }

    /// The error for a set that is there already (G10).
    #[must_use]
    pub fn set_exists(&self, name: &str) -> Error {
        Error::AlreadyExists {
            cluster: self.inner.name.clone(),
            object: object(name),
            import_id: format!("{}/{name}", self.inner.name),
        }
    }

    /// Server-side apply of a set that is there, bound to its uid.
    ///
    /// # Errors
    /// [`Error::Conflict`] with managers and fields, [`Error::OtherObject`], and what any request can end in.
    pub async fn update_capacity_set(
        &self,
        uid: &str,
        definition: &Definition,
        force: bool,
        cancel: &Cancel,
    ) -> Result<FoundSet, Error> {
        let name = definition.set.name.as_str();
        let object = object(name);
        let mut body = body(definition);
        body["metadata"]["uid"] = json!(uid);
        let params = PatchParams {
            force,
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = Request::new(SETS)
            .patch(name, &params, &Patch::Apply(&body))
            .map(strict);
        let answer = self
            .call::<CapacitySet>(&format!("apply {object}"), Some(&object), request, cancel)
            .await;
        self.forget_sets().await;
        match answer {
            Ok(set) => Ok(found(set)),
            Err(Error::Refused {
                code: 409, message, ..
            }) if message.contains("UID") => Err(Error::OtherObject {
                cluster: self.inner.name.clone(),
                object: Box::new(object),
                expected: uid.to_owned(),
                found: "another".to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Deletes a set, and waits until it is gone. One that is gone, or is another object by now, is done. The definition of the kind stays.
    ///
    /// # Errors
    /// [`Error::StillThere`] after `timeout`, and what any request can end in.
    pub async fn delete_capacity_set(
        &self,
        name: &str,
        uid: Option<&str>,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let object = object(name);
        let doing = format!("delete {object}");
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(SETS).delete(name, &params);
        let answer = self.send(&doing, Some(&object), request, cancel).await;
        self.forget_sets().await;
        match answer {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(()),
            Err(Error::Refused {
                code: 409, message, ..
            }) if message.to_ascii_lowercase().contains("uid") => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let until = tokio::time::Instant::now() + timeout;
        loop {
            match self.capacity_set(name, cancel).await? {
                Some(there) if uid.is_none_or(|uid| uid == there.uid) => {}
                _ => return Ok(()),
            }
            if tokio::time::Instant::now() >= until {
                return Err(Error::StillThere {
                    cluster: self.inner.name.clone(),
                    object,
                    seconds: timeout.as_secs(),
                    waiting_for: None,
                });
            }
            self.pause(LOOK, &doing, cancel).await?;
        }
    }
}
