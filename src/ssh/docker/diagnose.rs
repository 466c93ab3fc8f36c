//! Why the engine's socket does not open: sshd never says, so the server is asked.

use std::sync::Arc;

use super::transport::Route;
use crate::ssh::config::ServerConfig;
use crate::ssh::connect::Connection;
use crate::ssh::error::{DockerProblem, Result, SshError};
use crate::ssh::exec::{Command, Output};
use crate::ssh::scope::Scope;

/// What the server says of the socket `$1`, one `key=value` a line.
const LOOK: &str = concat!(
    r#"echo "user=$(id -un)"; "#,
    r#"if [ -S "$1" ]; then echo socket=yes; elif [ -e "$1" ]; then echo socket=other; else echo socket=no; fi; "#,
    r#"if [ -w "$1" ]; then echo writable=yes; fi; "#,
    r#"echo "owner=$(stat -L -c '%U:%G %a' "$1" 2>/dev/null)"; "#,
    r#"command -v dockerd >/dev/null 2>&1 && echo engine=yes; "#,
    r#"command -v docker >/dev/null 2>&1 && echo client=yes; "#,
    r#"exit 0"#
);

/// What [`LOOK`] found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    user: String,
    socket: bool,
    writable: bool,
    owner: String,
    engine: bool,
    client: bool,
}

fn parse(output: &str) -> Found {
    let mut found = Found::default();
    for line in output.lines() {
        match line.split_once('=') {
            Some(("user", user)) => found.user = user.trim().to_owned(),
            Some(("socket", kind)) => found.socket = kind == "yes",
            Some(("writable", "yes")) => found.writable = true,
            Some(("owner", owner)) => found.owner = owner.trim().to_owned(),
            Some(("engine", "yes")) => found.engine = true,
            Some(("client", "yes")) => found.client = true,
            _ => {}
        }
    }
    found
}

/// Finds the way to the engine: the forwarded socket, or dial-stdio where sshd forbids that or `docker_sudo` is set.
///
/// # Errors
/// [`SshError::Docker`] with the reason why neither works.
pub(crate) async fn route(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    scope: &Scope,
) -> Result<Route> {
    let socket = config.docker_socket.as_str();
    if !socket.starts_with('/') || socket.contains('\0') {
        return Err(SshError::Refused {
            what: format!("docker_socket {socket:?}"),
            reason: "it must be an absolute path".to_owned(),
        });
    }
    if config.docker_sudo {
        let output = try_client(connection, config, scope, &["sudo", "-n"]).await?;
        if output.ok() {
            return Ok(Route::SudoDialStdio);
        }
        let found = look(connection, config, scope).await?;
        return Err(problem(config, sudo_problem(&output, &found, socket)));
    }
    let opened = scope
        .narrowed(config.limits.command)
        .run(
            &config.name,
            "opening the Docker socket",
            connection.unix_socket(socket),
        )
        .await?;
    if opened.is_some() {
        return Ok(Route::Forwarded);
    }
    let found = look(connection, config, scope).await?;
    if let Some(reason) = socket_problem(&found, socket) {
        return Err(problem(config, reason));
    }
    let output = try_client(connection, config, scope, &[]).await?;
    if output.ok() {
        tracing::warn!(
            server = config.name,
            "sshd forbids forwarding {socket} (AllowStreamLocalForwarding); using `docker system dial-stdio` instead, which is slower"
        );
        return Ok(Route::DialStdio);
    }
    Err(problem(config, client_problem(&output, socket)))
}

/// Why a socket that did not open can't be used; none when it looks usable.
fn socket_problem(found: &Found, socket: &str) -> Option<DockerProblem> {
    if !found.socket {
        return Some(if found.engine {
            DockerProblem::NotRunning {
                socket: socket.to_owned(),
                what: "is missing".to_owned(),
            }
        } else {
            DockerProblem::Absent {
                socket: socket.to_owned(),
            }
        });
    }
    if !found.writable {
        return Some(DockerProblem::NotPermitted {
            user: found.user.clone(),
            socket: socket.to_owned(),
            owner: found.owner.clone(),
        });
    }
    None
}

fn client_problem(output: &Output, socket: &str) -> DockerProblem {
    let said = output.outcome();
    if said.contains("Cannot connect to the Docker daemon") || said.contains("connection refused") {
        return DockerProblem::NotRunning {
            socket: socket.to_owned(),
            what: "refuses connections".to_owned(),
        };
    }
    DockerProblem::NoWayToSocket {
        socket: socket.to_owned(),
        said,
    }
}

fn sudo_problem(output: &Output, found: &Found, socket: &str) -> DockerProblem {
    let said = output.outcome();
    if said.contains("password is required")
        || said.contains("not allowed")
        || said.contains("sudo:") && !said.contains("command not found")
    {
        return DockerProblem::SudoRefused {
            user: found.user.clone(),
            said,
        };
    }
    if !found.client && !found.engine {
        return DockerProblem::Absent {
            socket: socket.to_owned(),
        };
    }
    client_problem(output, socket)
}

async fn look(connection: &Arc<Connection>, config: &ServerConfig, scope: &Scope) -> Result<Found> {
    let look = Command::script(
        "looking for Docker",
        config.limits.command,
        LOOK,
        &[&config.docker_socket],
    );
    Ok(parse(&look.run(connection, scope).await?.stdout))
}

/// Whether the docker command reaches the engine, the way that dial-stdio would.
async fn try_client(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    scope: &Scope,
    sudo: &[&str],
) -> Result<Output> {
    let address = format!("unix://{}", config.docker_socket);
    let words = sudo.iter().copied().chain([
        "docker",
        "-H",
        &address,
        "version",
        "--format",
        "{{.Server.APIVersion}}",
    ]);
    Command::new("docker version", config.limits.command, words)
        .run(connection, scope)
        .await
}

fn problem(config: &ServerConfig, problem: DockerProblem) -> SshError {
    SshError::Docker {
        server: config.name.clone(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_each_state_of_the_socket_has_its_own_reason() {
        let found = |text: &str| parse(text);
        let reason = |text: &str| {
            socket_problem(&found(text), "/var/run/docker.sock").map(|reason| reason.to_string())
        };
        let absent = reason("user=ops\nsocket=no\nowner=\n").unwrap();
        assert!(absent.contains("Install Docker Engine"), "{absent}");
        let stopped = reason("user=ops\nsocket=no\nengine=yes\nclient=yes\n").unwrap();
        assert!(stopped.contains("systemctl start docker"), "{stopped}");
        let denied = reason("user=ops\nsocket=yes\nowner=root:docker 660\nengine=yes\n").unwrap();
        assert!(
            denied.contains("usermod -aG docker ops") && denied.contains("root:docker 660"),
            "{denied}"
        );
        assert_eq!(reason("user=ops\nsocket=yes\nwritable=yes\n"), None);
    }

    #[test]
    fn s2_a_stale_socket_and_a_refusing_sudo_are_told_apart() {
        let failed = |text: &str| Output {
            status: Some(1),
            stderr: text.to_owned(),
            ..Output::default()
        };
        let stale = client_problem(
            &failed(
                "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            ),
            "/x",
        );
        assert!(matches!(stale, DockerProblem::NotRunning { .. }));
        let no_client = client_problem(
            &failed("timeout: failed to run command 'docker': No such file"),
            "/x",
        );
        assert!(matches!(no_client, DockerProblem::NoWayToSocket { .. }));
        let found = parse("user=ops\nclient=yes\nengine=yes");
        assert!(matches!(
            sudo_problem(&failed("sudo: a password is required"), &found, "/x"),
            DockerProblem::SudoRefused { .. }
        ));
        assert!(matches!(
            sudo_problem(
                &failed("sudo: docker: command not found"),
                &parse("user=ops"),
                "/x"
            ),
            DockerProblem::Absent { .. }
        ));
    }
}
