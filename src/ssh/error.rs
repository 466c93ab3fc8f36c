//! What can go wrong with a server, in the words that a practitioner reads.

use std::time::Duration;

use crate::capacity::ledger::Shortage;

/// A failed operation on a server. The text says what was asked, what was found, what to do; causes are in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// TCP or the jump host failed.
    #[error(
        "{address} can't be reached: {reason}. Check host and port, and that an SSH server listens there"
    )]
    Unreachable {
        /// `user@host:port`.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// The server is there and does not speak SSH with us.
    #[error("{address} did not complete the SSH handshake: {reason}")]
    Handshake {
        /// `user@host:port`.
        address: String,
        /// What went wrong.
        reason: String,
        /// The protocol's own error.
        #[source]
        source: Option<Box<russh::Error>>,
    },
    /// Neither pinned nor in known_hosts: refused before authentication (S4).
    #[error(
        "the host key of {address} is not known, so the connection is refused. It shows {shown} ({fingerprint}); {searched}. \
         Compare the fingerprint with the server's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), then set host_key = {shown:?} or add it to known_hosts"
    )]
    UnknownHostKey {
        /// `user@host:port`.
        address: String,
        /// The key, in authorized_keys form.
        shown: String,
        /// `SHA256:...`.
        fingerprint: String,
        /// Where we looked.
        searched: String,
    },
    /// Another key than the one on record: refused before authentication (S4).
    #[error(
        "the host key of {address} has CHANGED, so the connection is refused. Expected {expected}; it shows {shown} ({fingerprint}). \
         Either someone is in between, or the machine was reinstalled: find out which before you replace the key on record"
    )]
    ChangedHostKey {
        /// `user@host:port`.
        address: String,
        /// Where the expected key is recorded.
        expected: String,
        /// The key, in authorized_keys form.
        shown: String,
        /// `SHA256:...`.
        fingerprint: String,
    },
    /// known_hosts says the key must not be used.
    #[error(
        "the host key of {address} ({fingerprint}) is marked @revoked in {place}, so the connection is refused. The server needs a new host key"
    )]
    RevokedHostKey {
        /// `user@host:port`.
        address: String,
        /// `SHA256:...`.
        fingerprint: String,
        /// File and line.
        place: String,
    },
    /// The server has no key of the type on record.
    #[error(
        "{address} has no host key of the type on record ({expected}), so it can't be verified and the connection is refused. It offers {offered}. If the server was reinstalled, verify its new key and replace the one on record"
    )]
    HostKeyType {
        /// `user@host:port`.
        address: String,
        /// Types on record.
        expected: String,
        /// Types offered.
        offered: String,
    },
    /// No policy at all.
    #[error(
        "no host key is configured for {address}, so the connection is refused: set host_key (the line that ssh-keyscan prints, verified) or known_hosts_path"
    )]
    NoHostKeyPolicy {
        /// `user@host:port`.
        address: String,
    },
    /// A pinned key or known_hosts file can't be used.
    #[error("the host key configured for {address} can't be used: {reason}")]
    HostKeyConfig {
        /// `user@host:port`.
        address: String,
        /// Why.
        reason: String,
    },
    /// The private key can't be used; never repeats any of it.
    #[error("the private key for {address} ({origin}) can't be used: {reason}")]
    PrivateKey {
        /// `user@host:port`.
        address: String,
        /// `private_key` or the path.
        origin: String,
        /// What to do.
        reason: String,
    },
    /// ssh-agent can't help.
    #[error("ssh-agent can't be used for {address}: {reason}")]
    Agent {
        /// `user@host:port`.
        address: String,
        /// What to do.
        reason: String,
    },
    /// The server does not accept user or key.
    #[error(
        "{address} refused the login: {offered} not accepted for this user. The server accepts: {methods}. Check `user`, and that the public key is in that user's authorized_keys"
    )]
    LoginRefused {
        /// `user@host:port`.
        address: String,
        /// Keys that were tried, as type and fingerprint.
        offered: String,
        /// Methods that the server names.
        methods: String,
    },
    /// A limit ran out.
    #[error("{what} on {server} took longer than {} s and was ended", limit.as_secs_f32())]
    TimedOut {
        /// Server name.
        server: String,
        /// What was going on.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// Terraform asked to stop.
    #[error("{what} on {server} was stopped because Terraform was interrupted")]
    Cancelled {
        /// Server name.
        server: String,
        /// What was going on.
        what: String,
    },
    /// An established connection went away.
    #[error(
        "the SSH connection to {server} was lost during: {what}. What had been done so far stays; apply again"
    )]
    ConnectionLost {
        /// Server name.
        server: String,
        /// What was going on.
        what: String,
        /// The protocol's own error.
        #[source]
        source: Option<Box<russh::Error>>,
    },
    /// A word can't be sent to a shell, or a value can't be given to Docker.
    #[error("{what} can't be used: {reason}")]
    Refused {
        /// What the user typed it as.
        what: String,
        /// Why, and what would be accepted.
        reason: String,
    },
    /// A helper command failed.
    #[error("{what} failed on {server}: {outcome}")]
    Command {
        /// Server name.
        server: String,
        /// What the command was for.
        what: String,
        /// Exit status and the last lines it printed.
        outcome: String,
    },
    /// Docker can't be used at all.
    #[error("Docker can't be used on {server}: {problem}")]
    Docker {
        /// Server name.
        server: String,
        /// Which way.
        problem: DockerProblem,
    },
    /// One call of the engine failed.
    #[error("Docker on {server} could not {operation}: {message}")]
    Engine {
        /// Server name.
        server: String,
        /// `create container NAME`.
        operation: String,
        /// What the engine answered, without secrets.
        message: String,
        /// HTTP status, 0 when there was no answer.
        status: u16,
    },
    /// Docker was asked for a GPU and has none to give.
    #[error(
        "Docker on {server} can't reach the GPUs: {message}. Install the NVIDIA Container Toolkit, then: {}",
        crate::capacity::server::text::TOOLKIT_COMMANDS.replace('\n', " && ")
    )]
    NoGpuAccess {
        /// Server name.
        server: String,
        /// The engine's words.
        message: String,
    },
    /// An image can't be pulled.
    #[error("{server} could not pull image {image}: {reason}")]
    Pull {
        /// Server name.
        server: String,
        /// Image reference.
        image: String,
        /// What to do.
        reason: String,
    },
    /// G10.
    #[error(
        "{server} already has a container named {name}{whose}. Loomplane takes nothing over silently: import it (terraform import ADDRESS {server}/{name}), or remove or rename it"
    )]
    Exists {
        /// Server name.
        server: String,
        /// Container name.
        name: String,
        /// Who made it, as a half sentence.
        whose: String,
    },
    /// G10: another process is at it.
    #[error(
        "another apply is working on service {name} on {server} right now (run {run}). Wait for it to end and apply again"
    )]
    Busy {
        /// Server name.
        server: String,
        /// Service name.
        name: String,
        /// The run that holds it.
        run: String,
    },
    /// The container is not there.
    #[error("{server} has no container named {name}")]
    Gone {
        /// Server name.
        server: String,
        /// Container name.
        name: String,
    },
    /// S3: not enough free cards.
    #[error("{}\nWaited {waited} s for them (device_wait_seconds)", shortage.render(server).detail.trim_end())]
    DevicesHeld {
        /// Server name.
        server: String,
        /// What was asked, what there is, who holds it.
        shortage: Box<Shortage>,
        /// Seconds waited.
        waited: u64,
    },
    /// A failure that several operations share: the connection is tried once for all of them.
    #[error("{0}")]
    Shared(std::sync::Arc<SshError>),
    /// A container started and did not stay up.
    #[error("container {name} on {server} did not come up: {reason}{}", tail(log))]
    NotRunning {
        /// Server name.
        server: String,
        /// Container name.
        name: String,
        /// State and exit code.
        reason: String,
        /// Its last lines, secrets replaced.
        log: String,
    },
    /// The container runs and is not healthy in time.
    #[error(
        "container {name} on {server} runs but was not healthy after {waited} s: {reason}{}. It stays as it is",
        tail(log)
    )]
    NotHealthy {
        /// Server name.
        server: String,
        /// Container name.
        name: String,
        /// Last health output.
        reason: String,
        /// Seconds waited.
        waited: u64,
        /// Its last lines, secrets replaced.
        log: String,
    },
    /// S5: an update failed; says what runs now.
    #[error("update of {name} on {server} failed and {now}. Cause: {cause}")]
    UpdateFailed {
        /// Server name.
        server: String,
        /// Service name.
        name: String,
        /// What is there now.
        now: String,
        /// Why the new container did not work.
        cause: Box<SshError>,
    },
    /// The lock on the server can't be had.
    #[error(
        "the lock that keeps two applies from sharing a GPU can't be taken on {server}: {reason}"
    )]
    Lock {
        /// Server name.
        server: String,
        /// Why.
        reason: String,
    },
}

/// Why Docker can't be used, each with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DockerProblem {
    /// No engine installed.
    #[error(
        "there is no Docker Engine (no {socket}, no docker command). Install Docker Engine: https://docs.docker.com/engine/install/"
    )]
    Absent {
        /// Socket path.
        socket: String,
    },
    /// Installed, not running.
    #[error(
        "the Docker Engine is installed and does not run ({socket} {what}). Start it: sudo systemctl start docker"
    )]
    NotRunning {
        /// Socket path.
        socket: String,
        /// `is missing` or `refuses connections`.
        what: String,
    },
    /// The user may not use the socket.
    #[error(
        "user {user} may not use {socket} ({owner}). Add the user to that group (sudo usermod -aG docker {user}) and check again, or set docker_sudo = true if that user may run docker by sudo without a password"
    )]
    NotPermitted {
        /// Remote user.
        user: String,
        /// Socket path.
        socket: String,
        /// `root:docker 660`.
        owner: String,
    },
    /// `docker_sudo` and sudo asks.
    #[error(
        "docker_sudo is set and sudo refuses without a password for {user}: {said}. Allow it in sudoers (for example: {user} ALL=(root) NOPASSWD: /usr/bin/docker), or add the user to the group docker and drop docker_sudo"
    )]
    SudoRefused {
        /// Remote user.
        user: String,
        /// sudo's words.
        said: String,
    },
    /// Forwarding is forbidden and there is no other way.
    #[error(
        "sshd refuses to forward {socket} (AllowStreamLocalForwarding no?) and `docker system dial-stdio` does not work either: {said}. Allow the forwarding, or install the docker command on the server"
    )]
    NoWayToSocket {
        /// Socket path.
        socket: String,
        /// What dial-stdio said.
        said: String,
    },
    /// API below what device requests need.
    #[error(
        "its engine {version} speaks API {api}; GPU work needs API 1.40 (Docker 19.03) or newer. Upgrade Docker"
    )]
    TooOld {
        /// Engine version.
        version: String,
        /// API version.
        api: String,
    },
    /// Its API begins above what this client speaks.
    #[error(
        "its engine {version} no longer speaks an API version of this Loomplane (it starts at {min_api}). Upgrade Loomplane"
    )]
    TooNew {
        /// Engine version.
        version: String,
        /// Minimum API version.
        min_api: String,
    },
    /// Podman's socket.
    #[error("{socket} is served by Podman, which Loomplane does not drive. Install Docker Engine")]
    Podman {
        /// Socket path.
        socket: String,
    },
    /// It answers, and then it does not.
    #[error("{said}. See its log (journalctl -u docker)")]
    Faulty {
        /// What failed.
        said: String,
    },
    /// The answer is not Docker's.
    #[error("{socket} does not answer like a Docker Engine: {said}")]
    NotDocker {
        /// Socket path.
        socket: String,
        /// What came back.
        said: String,
    },
}

fn tail(log: &str) -> String {
    let log = log.trim();
    if log.is_empty() {
        String::new()
    } else {
        format!(". Its last lines:\n{log}\n")
    }
}

/// Result of this room.
pub type Result<T, E = SshError> = std::result::Result<T, E>;
