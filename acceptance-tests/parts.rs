//! The parts that tests need, and what happens where one can't be had.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that `part` can't start here. On a person's machine the test is skipped with this one line; in CI that is a failure,
/// since a skipped test there would pass for a passed one.
pub fn cannot_start(part: &str, why: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{part} can't start: {why} (CI=true: a skip is a failure)"
    );
    eprintln!("skipped: {part} can't start here: {why}");
}

/// The path of a tool, which `tools/ensure.sh` finds or builds. `None` after [`cannot_start`].
pub fn tool(name: &str) -> Option<PathBuf> {
    let done = Command::new(here().join("tools/ensure.sh"))
        .arg(name)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("tools/ensure.sh starts");
    if !done.status.success() {
        cannot_start(name, String::from_utf8_lossy(&done.stderr).trim());
        return None;
    }
    Some(PathBuf::from(
        String::from_utf8_lossy(&done.stdout).trim_end(),
    ))
}

/// The folder of the acceptance tests in the source tree.
pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("acceptance-tests")
}

/// The provider's binary, built by cargo for this very test run; `LOOMPLANE_TEST_PROVIDER` names another, such as a release or one
/// that a long run keeps while the source is worked on.
pub fn provider() -> PathBuf {
    if let Some(path) = std::env::var_os("LOOMPLANE_TEST_PROVIDER") {
        return PathBuf::from(path);
    }
    PathBuf::from(env!("CARGO_BIN_EXE_terraform-provider-loomplane"))
}
