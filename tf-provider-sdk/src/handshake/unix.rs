//! A Unix socket in a folder of its own, which only this user (and a group, if asked for) can enter.

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Places;
use super::listen::Listener;

/// Longest path of a Unix socket: 104 bytes with the final zero on macOS and the BSDs, 108 on Linux.
const LONGEST_SOCKET_PATH: usize = 103;

/// Folder for the socket where the one for temporary files has too long a name.
const SHORT_FOLDER: &str = "/tmp";

/// How many random names are tried: each has 64 random bits, so a second try is already rare.
const TRIES: usize = 16;

/// Why there is no Unix socket.
#[derive(Debug, Error)]
pub(crate) enum UnixError {
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
}

/// A folder that only this user can enter, with the socket in it. Dropping it removes both.
#[derive(Debug)]
pub(crate) struct SocketFolder(PathBuf);

impl SocketFolder {
    pub(super) fn socket(&self) -> PathBuf {
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

pub(super) fn bind(places: &Places) -> Result<Listener, UnixError> {
    let parent = parent_folder(places)?;
    let folder = make_folder(&parent)?;
    let path = folder.socket();
    let listener = tokio::net::UnixListener::bind(&path).map_err(|source| UnixError::Bind {
        path: path.clone(),
        source,
    })?;
    if let Some(group) = &places.socket_group {
        share_with(group, &folder).map_err(|source| UnixError::Group {
            group: group.clone(),
            source,
        })?;
    }
    Ok(Listener::Unix(listener, folder))
}

fn parent_folder(places: &Places) -> Result<PathBuf, UnixError> {
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
        Err(UnixError::PathTooLong { folder })
    }
}

/// Makes a folder under a name that nobody can guess or has left behind: folders of killed plugins stay, and process ids come again.
fn make_folder(parent: &Path) -> Result<SocketFolder, UnixError> {
    let mut failure = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let folder = parent.join(random_name());
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(SocketFolder(folder)),
            Err(error) => failure = error,
        }
        if failure.kind() != io::ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(UnixError::Folder {
        folder: parent.to_owned(),
        source: failure,
    })
}

fn random_name() -> String {
    // The standard library seeds each RandomState from the system's random numbers.
    format!("tfp-{:016x}", RandomState::new().build_hasher().finish())
}

/// Lets a group enter the folder and use the socket.
fn share_with(group: &str, folder: &SocketFolder) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::super::listen::Address;
    use super::*;

    fn places(folder: Option<&Path>) -> Places {
        Places {
            socket_folder: folder.map(Path::to_owned),
            socket_group: None,
            ports: 0..=0,
        }
    }

    #[tokio::test]
    async fn only_the_user_can_enter_the_folder_and_both_go_when_dropped() {
        use std::os::unix::fs::PermissionsExt;

        let parent = tempfile::tempdir().expect("a folder");
        let one = bind(&places(Some(parent.path()))).expect("bound");
        let two = bind(&places(Some(parent.path()))).expect("bound");
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

    #[tokio::test]
    async fn a_group_may_connect_when_asked_for() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};

        let parent = tempfile::tempdir().expect("a folder");
        let own_group = std::fs::metadata(parent.path()).expect("there").gid();
        let mut places = places(Some(parent.path()));
        places.socket_group = Some(own_group.to_string());
        let listener = bind(&places).expect("bound");
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
        assert!(matches!(bind(&places), Err(UnixError::Group { .. })));
        drop(listener);
        assert_eq!(
            std::fs::read_dir(parent.path()).expect("there").count(),
            0,
            "a failed try leaves nothing"
        );
    }

    #[tokio::test]
    async fn a_folder_that_was_asked_for_is_used_or_refused() {
        let missing = Path::new("/nonexistent/for/this/test");
        assert!(matches!(
            bind(&places(Some(missing))),
            Err(UnixError::Folder { .. })
        ));
        let long = PathBuf::from("/tmp").join("x".repeat(90));
        assert!(matches!(
            bind(&places(Some(&long))),
            Err(UnixError::PathTooLong { .. })
        ));
    }

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nstaff-x:x:49:\nstaff:x:50:me\nbroken\n";
        assert_eq!(group_id("staff", groups), Some(50));
        assert_eq!(group_id("staf", groups), None);
        assert_eq!(group_id("broken", groups), None);
    }
}
