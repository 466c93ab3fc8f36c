//! Images: there already, or pulled once with progress in the log. A tag is not resolved again (S5).

use std::collections::BTreeMap;
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::models::{CreateImageInfo, ImageConfig};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use secrecy::ExposeSecret;

use super::engine::{Engine, failed};
use crate::ssh::config::Registries;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;

/// How often a pull is reported.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageRef {
    /// Registry host; `docker.io` for short names.
    pub(crate) registry: String,
    /// What `fromImage` takes.
    pub(crate) repository: String,
    /// What `tag` takes: a tag or a digest.
    pub(crate) tag: String,
}

/// Splits a reference the way Docker does.
pub(crate) fn parse(image: &str) -> ImageRef {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let last = named.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match named[last..].find(':') {
        Some(colon) => (&named[..last + colon], &named[last + colon + 1..]),
        None => (named, "latest"),
    };
    let registry = match repository.split_once('/') {
        Some((host, _)) if host.contains('.') || host.contains(':') || host == "localhost" => host,
        _ => "docker.io",
    };
    ImageRef {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: digest.unwrap_or(tag).to_owned(),
    }
}

fn credentials(reference: &ImageRef, registries: &Registries) -> Option<DockerCredentials> {
    let hub = [
        "docker.io",
        "index.docker.io",
        "registry-1.docker.io",
        "https://index.docker.io/v1/",
    ];
    let names: Vec<&str> = if reference.registry == "docker.io" {
        hub.to_vec()
    } else {
        vec![&reference.registry]
    };
    let login = names.iter().find_map(|name| registries.get(*name))?;
    let address = if reference.registry == "docker.io" {
        "https://index.docker.io/v1/"
    } else {
        &reference.registry
    };
    Some(DockerCredentials {
        username: Some(login.username.clone()),
        password: Some(login.password.expose_secret().to_owned()),
        serveraddress: Some(address.to_owned()),
        ..DockerCredentials::default()
    })
}

impl Engine {
    /// The image's own configuration; none when it is not there.
    pub(crate) async fn image_config(
        &self,
        image: &str,
        scope: &Scope,
    ) -> Result<Option<ImageConfig>> {
        match self
            .call(
                scope,
                &format!("inspect image {image}"),
                self.docker().inspect_image(image),
            )
            .await
        {
            Ok(found) => Ok(Some(found.config.unwrap_or_default())),
            Err(SshError::Engine { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the image is there; says whether it had to be pulled.
    pub(crate) async fn ensure_image(
        &self,
        image: &str,
        registries: &Registries,
        scope: &Scope,
    ) -> Result<bool> {
        if self.image_config(image, scope).await?.is_some() {
            return Ok(false);
        }
        tracing::info!(server = self.server(), image, "pulling image");
        let what = format!("pulling image {image}");
        scope
            .run(self.server(), &what, self.pull(image, registries))
            .await?;
        if self.image_config(image, scope).await?.is_none() {
            return Err(SshError::Pull {
                server: self.server().to_owned(),
                image: image.to_owned(),
                reason: "the pull ended without an error and the image is not there".to_owned(),
            });
        }
        tracing::info!(server = self.server(), image, "image is there");
        Ok(true)
    }

    async fn pull(&self, image: &str, registries: &Registries) -> Result<()> {
        let reference = parse(image);
        let login = credentials(&reference, registries);
        let with_login = login.is_some();
        let options = CreateImageOptionsBuilder::default()
            .from_image(&reference.repository)
            .tag(&reference.tag)
            .build();
        // Its head may come late; how long the whole may take is the caller's deadline.
        let patient = self
            .docker()
            .clone()
            .with_timeout(Duration::from_secs(24 * 3600));
        let mut steps = patient.create_image(Some(options), None, login);
        let mut progress = Progress::default();
        let mut reported = tokio::time::Instant::now();
        while let Some(step) = steps.next().await {
            let step =
                step.map_err(|error| self.pull_error(image, &reference, with_login, error))?;
            progress.take(&step);
            if reported.elapsed() >= REPORT_EVERY {
                reported = tokio::time::Instant::now();
                tracing::info!(server = self.server(), image, "{}", progress.render());
            }
        }
        Ok(())
    }

    fn pull_error(
        &self,
        image: &str,
        reference: &ImageRef,
        with_login: bool,
        error: bollard::errors::Error,
    ) -> SshError {
        match failed(self.server(), "pull", error) {
            SshError::Engine { message, .. } => {
                let reason = explain(&message, reference, with_login);
                SshError::Pull {
                    server: self.server().to_owned(),
                    image: image.to_owned(),
                    reason,
                }
            }
            other => other,
        }
    }
}

/// What a registry's refusal means and what to do.
fn explain(message: &str, reference: &ImageRef, with_login: bool) -> String {
    let registry = &reference.registry;
    let lower = message.to_ascii_lowercase();
    let advice = if lower.contains("manifest unknown")
        || lower.contains("not found") && !lower.contains("no such host")
    {
        format!("{registry} has no such tag or digest. Check the reference")
    } else if lower.contains("access denied")
        || lower.contains("unauthorized")
        || lower.contains("no basic auth")
        || lower.contains("denied:")
    {
        if with_login {
            format!(
                "{registry} refuses the credentials of registries[{registry:?}], or they may not read this repository"
            )
        } else {
            format!(
                "the repository does not exist or is private. Give credentials in the provider's registries[{registry:?}]"
            )
        }
    } else if lower.contains("no such host")
        || lower.contains("connection refused")
        || lower.contains("i/o timeout")
        || lower.contains("deadline exceeded")
    {
        format!(
            "the server can't reach {registry}. Check its network, DNS and Docker's proxy settings"
        )
    } else if lower.contains("no space left") {
        "the server's disk is full. Free some space (docker system df shows what takes it)"
            .to_owned()
    } else if lower.contains("server gave http response to https client") {
        format!(
            "{registry} speaks plain HTTP. Give it TLS, or list it in insecure-registries of the server's /etc/docker/daemon.json"
        )
    } else if lower.contains("no matching manifest") {
        "the image is not built for the server's architecture".to_owned()
    } else if lower.contains("toomanyrequests") || lower.contains("rate limit") {
        format!(
            "{registry} limits pulls. Wait, or give credentials in the provider's registries[{registry:?}]"
        )
    } else {
        return message.to_owned();
    };
    format!("{advice} ({message})")
}

/// Bytes of the layers so far.
#[derive(Default)]
struct Progress {
    layers: BTreeMap<String, (u64, u64)>,
    status: String,
}

impl Progress {
    fn take(&mut self, step: &CreateImageInfo) {
        if let Some(status) = &step.status {
            self.status.clone_from(status);
        }
        if let (Some(id), Some(detail)) = (&step.id, &step.progress_detail)
            && let (Some(current), Some(total)) = (detail.current, detail.total)
            && step.status.as_deref() == Some("Downloading")
        {
            self.layers.insert(
                id.clone(),
                (
                    u64::try_from(current).unwrap_or_default(),
                    u64::try_from(total).unwrap_or_default(),
                ),
            );
        }
    }

    fn render(&self) -> String {
        let (done, total) = self.layers.values().fold((0, 0), |(done, total), layer| {
            (done + layer.0, total + layer.1)
        });
        if total == 0 {
            self.status.clone()
        } else {
            format!("pulled {} of {} MiB known so far", done >> 20, total >> 20)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::config::RegistryLogin;
    use secrecy::SecretString;

    #[test]
    fn references_are_split_as_docker_does() {
        for (image, registry, repository, tag) in [
            ("busybox", "docker.io", "busybox", "latest"),
            ("busybox:1.36", "docker.io", "busybox", "1.36"),
            ("owner/app", "docker.io", "owner/app", "latest"),
            ("ghcr.io/owner/app:v1", "ghcr.io", "ghcr.io/owner/app", "v1"),
            (
                "localhost:5000/app",
                "localhost:5000",
                "localhost:5000/app",
                "latest",
            ),
            ("localhost/app:x", "localhost", "localhost/app", "x"),
            (
                "127.0.0.1:5000/a/b:c",
                "127.0.0.1:5000",
                "127.0.0.1:5000/a/b",
                "c",
            ),
            ("app@sha256:abc", "docker.io", "app", "sha256:abc"),
            (
                "ghcr.io/o/app:v1@sha256:abc",
                "ghcr.io",
                "ghcr.io/o/app",
                "sha256:abc",
            ),
        ] {
            let found = parse(image);
            assert_eq!(
                (
                    found.registry.as_str(),
                    found.repository.as_str(),
                    found.tag.as_str()
                ),
                (registry, repository, tag),
                "{image}"
            );
        }
    }

    #[test]
    fn a_registrys_refusal_says_what_to_do() {
        let reference = parse("ghcr.io/o/app");
        for (message, with_login, want) in [
            (
                "manifest for ghcr.io/o/app:latest not found: manifest unknown",
                false,
                "no such tag",
            ),
            (
                "pull access denied for app, repository does not exist",
                false,
                "registries[\"ghcr.io\"]",
            ),
            (
                "unauthorized: authentication required",
                true,
                "refuses the credentials",
            ),
            (
                "dial tcp: lookup ghcr.io: no such host",
                false,
                "can't reach ghcr.io",
            ),
            (
                "write /var/lib/docker/tmp: no space left on device",
                false,
                "disk is full",
            ),
            (
                "no matching manifest for linux/amd64 in the manifest list entries",
                false,
                "architecture",
            ),
        ] {
            let text = explain(message, &reference, with_login);
            assert!(text.contains(want), "{message} gave {text}");
        }
    }

    #[test]
    fn credentials_go_to_their_registry_only() {
        let login = RegistryLogin {
            username: "u".to_owned(),
            password: SecretString::from("p"),
        };
        let registries = Registries::from([
            ("ghcr.io".to_owned(), login.clone()),
            ("docker.io".to_owned(), login),
        ]);
        assert!(credentials(&parse("quay.io/a/b"), &registries).is_none());
        assert_eq!(
            credentials(&parse("ghcr.io/a/b"), &registries)
                .unwrap()
                .serveraddress
                .as_deref(),
            Some("ghcr.io")
        );
        assert_eq!(
            credentials(&parse("busybox"), &registries)
                .unwrap()
                .serveraddress
                .as_deref(),
            Some("https://index.docker.io/v1/")
        );
    }
}
