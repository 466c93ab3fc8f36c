//! The socket that Terraform connects to: a Unix socket in a folder of its own, or TCP on the loopback address on Windows.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::TcpListener;

use super::Places;

/// Longest path of a Unix socket: 104 bytes with the final zero on macOS and the BSDs, 108 on Linux.
const LONGEST_SOCKET_PATH: usize = 103;

/// Folder for the socket where the one for temporary files has too long a name.
const SHORT_FOLDER: &str = "/tmp";

/// How many random names are tried: each has 64 random bits, so a second try is already rare.
const TRIES: usize = 16;

/// Why there is no socket.
#[derive(Debug, Error)]
pub(crate) enum ListenError {
    #[error(
        "can't make a folder for the plugin's socket in {folder}. Is it there, and writable? TMPDIR names another"
    )]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "the path of the plugin's socket in {folder} would be longer than {LONGEST_SOCKET_PATH} bytes: choose a folder with a shorter path"
    )]
    PathTooLong { folder: PathBuf },
    #[error("can't listen on the Unix socket {path}")]
    Bind { path: PathBuf, source: io::Error },
    #[error("can't give the plugin's socket to the group {group} (PLUGIN_UNIX_SOCKET_GROUP)")]
    Group { group: String, source: io::Error },
    #[error("no free TCP port on 127.0.0.1 between {} and {} (PLUGIN_MIN_PORT, PLUGIN_MAX_PORT)", ports.start(), ports.end())]
    NoPort {
        ports: RangeInclusive<u16>,
        source: io::Error,
    },
}

/// Where a listener can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    /// The network's name, as Go writes it.
    pub(crate) fn network(&self) -> &'static str {
        match self {
            Self::Unix(_) => "unix",
            Self::Tcp(_) => "tcp",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp(address) => address.to_string(),
        }
    }
}

/// A listening socket. Its files are removed when it is dropped.
#[derive(Debug)]
pub(crate) enum Listener {
    /// The folder goes with the socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, SocketFolder),
    #[cfg_attr(
        unix,
        allow(
            dead_code,
            reason = "Windows has no Unix sockets; tests use it everywhere"
        )
    )]
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Listens in the way of this system.
    pub(crate) async fn bind(places: &Places) -> Result<Self, ListenError> {
        #[cfg(unix)]
        return bind_unix(places);
        #[cfg(not(unix))]
        return bind_tcp(&places.ports).await;
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            #[cfg(unix)]
            Self::Unix(_, folder) => Address::Unix(folder.socket()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }
}

/// A folder that only this user can enter, with the socket in it. Dropping it removes both.
#[derive(Debug)]
pub(crate) struct SocketFolder(PathBuf);

impl SocketFolder {
    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // The process ends: what can't be removed (a folder that is gone already) is left.
        let _ = std::fs::remove_file(self.socket());
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[cfg(unix)]
fn bind_unix(places: &Places) -> Result<Listener, ListenError> {
    let parent = parent_folder(places)?;
    let folder = make_folder(&parent)?;
    let path = folder.socket();
    let listener = tokio::net::UnixListener::bind(&path).map_err(|source| ListenError::Bind {
        path: path.clone(),
        source,
    })?;
    if let Some(group) = &places.socket_group {
        share_with(group, &folder).map_err(|source| ListenError::Group {
            group: group.clone(),
            source,
        })?;
    }
    Ok(Listener::Unix(listener, folder))
}

#[cfg(unix)]
fn parent_folder(places: &Places) -> Result<PathBuf, ListenError> {
    let fits = |folder: &Path| {
        SocketFolder(folder.join(random_name()))
            .socket()
            .as_os_str()
            .len()
            <= LONGEST_SOCKET_PATH
    };
    let folder = places
        .socket_folder
        .clone()
        .unwrap_or_else(std::env::temp_dir);
    if fits(&folder) {
        Ok(folder)
    } else if places.socket_folder.is_none() {
        // CI systems like long TMPDIRs; nobody asked for this one by name.
        Ok(PathBuf::from(SHORT_FOLDER))
    } else {
        Err(ListenError::PathTooLong { folder })
    }
}

/// Makes a folder under a name that nobody can guess or has left behind: folders of killed plugins stay, and process ids come again.
#[cfg(unix)]
fn make_folder(parent: &Path) -> Result<SocketFolder, ListenError> {
    use std::os::unix::fs::DirBuilderExt;

    let mut failure = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let folder = parent.join(random_name());
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(SocketFolder(folder)),
            Err(error) => failure = error,
        }
        if failure.kind() != io::ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(ListenError::Folder {
        folder: parent.to_owned(),
        source: failure,
    })
}

fn random_name() -> String {
    // The standard library seeds each RandomState from the system's random numbers.
    format!("tfp-{:016x}", RandomState::new().build_hasher().finish())
}

/// Lets a group enter the folder and use the socket.
#[cfg(unix)]
fn share_with(group: &str, folder: &SocketFolder) -> io::Result<()> {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    let id = match group.parse() {
        Ok(id) => id,
        Err(_) => group_id(group, &std::fs::read_to_string("/etc/group")?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "no such group in /etc/group")
        })?,
    };
    let socket = folder.socket();
    chown(&socket, None, Some(id))?;
    set_permissions(&socket, Permissions::from_mode(0o660))?;
    chown(&folder.0, None, Some(id))?;
    set_permissions(&folder.0, Permissions::from_mode(0o710))
}

/// Number of a group in the text of `/etc/group` (`name:password:number:members`).
fn group_id(name: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// The first free port in the range; any free one for `0..=0`.
#[cfg_attr(
    unix,
    allow(
        dead_code,
        reason = "Windows has no Unix sockets; tests use it everywhere"
    )
)]
async fn bind_tcp(ports: &RangeInclusive<u16>) -> Result<Listener, ListenError> {
    let mut failure = io::Error::from(io::ErrorKind::InvalidInput);
    for port in ports.clone() {
        let bound = async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let address = listener.local_addr()?;
            Ok(Listener::Tcp(listener, address))
        };
        match bound.await {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(ListenError::NoPort {
        ports: ports.clone(),
        source: failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: Option<&Path>) -> Places {
        Places {
            socket_folder: folder.map(Path::to_owned),
            socket_group: None,
            ports: 0..=0,
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_user_can_enter_the_folder_and_both_go_when_dropped() {
        use std::os::unix::fs::PermissionsExt;

        let parent = tempfile::tempdir().expect("a folder");
        let one = Listener::bind(&places(Some(parent.path())))
            .await
            .expect("bound");
        let two = Listener::bind(&places(Some(parent.path())))
            .await
            .expect("bound");
        assert_ne!(one.address(), two.address());
        let Address::Unix(socket) = one.address() else {
            panic!("a Unix socket")
        };
        let folder = socket.parent().expect("a folder").to_owned();
        assert_eq!(
            std::fs::metadata(&folder)
                .expect("there")
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        tokio::net::UnixStream::connect(&socket)
            .await
            .expect("it listens");
        drop((one, two));
        assert_eq!(std::fs::read_dir(parent.path()).expect("there").count(), 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_group_may_connect_when_asked_for() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};

        let parent = tempfile::tempdir().expect("a folder");
        let own_group = std::fs::metadata(parent.path()).expect("there").gid();
        let mut places = places(Some(parent.path()));
        places.socket_group = Some(own_group.to_string());
        let listener = Listener::bind(&places).await.expect("bound");
        let Address::Unix(socket) = listener.address() else {
            panic!("a Unix socket")
        };
        assert_eq!(
            std::fs::metadata(&socket)
                .expect("there")
                .permissions()
                .mode()
                & 0o777,
            0o660
        );
        assert_eq!(
            std::fs::metadata(socket.parent().expect("a folder"))
                .expect("there")
                .permissions()
                .mode()
                & 0o777,
            0o710
        );
        places.socket_group = Some("no-such-group-here".to_owned());
        assert!(matches!(
            Listener::bind(&places).await,
            Err(ListenError::Group { .. })
        ));
        drop(listener);
        assert_eq!(
            std::fs::read_dir(parent.path()).expect("there").count(),
            0,
            "a failed try leaves nothing"
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_folder_that_was_asked_for_is_used_or_refused() {
        let missing = Path::new("/nonexistent/for/this/test");
        assert!(matches!(
            Listener::bind(&places(Some(missing))).await,
            Err(ListenError::Folder { .. })
        ));
        let long = PathBuf::from("/tmp").join("x".repeat(90));
        assert!(matches!(
            Listener::bind(&places(Some(&long))).await,
            Err(ListenError::PathTooLong { .. })
        ));
    }

    #[tokio::test]
    async fn tcp_takes_the_first_free_port_of_the_range_on_loopback() {
        let any = bind_tcp(&(0..=0)).await.expect("bound");
        let Address::Tcp(taken) = any.address() else {
            panic!("TCP")
        };
        assert!(taken.ip().is_loopback() && taken.port() != 0);
        let only = taken.port()..=taken.port();
        let refused = bind_tcp(&only).await.expect_err("taken");
        assert!(
            matches!(&refused, ListenError::NoPort { ports, .. } if *ports == only),
            "{refused}"
        );
        let next = taken.port()..=taken.port().saturating_add(50);
        let Address::Tcp(found) = bind_tcp(&next).await.expect("one of 50 is free").address()
        else {
            panic!("TCP")
        };
        assert!(found.port() > taken.port() && next.contains(&found.port()));
    }

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nstaff-x:x:49:\nstaff:x:50:me\nbroken\n";
        assert_eq!(group_id("staff", groups), Some(50));
        assert_eq!(group_id("staf", groups), None);
        assert_eq!(group_id("broken", groups), None);
    }
}
