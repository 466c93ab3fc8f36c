//! The stand-in `nvidia-smi` and the PCI bus that goes with it. What it says can be changed while the server runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::write_script;

/// Answers queries from a table of rows, or fails as told.
const SCRIPT: &str = r#"case "$*" in *--query-compute-apps*) cat "$dir/apps" 2>/dev/null; exit 0;; esac
if [ -e "$dir/sleep" ]; then sleep "$(cat "$dir/sleep")"; fi
fields=; for a; do case "$a" in --query-gpu=*) fields=${a#--query-gpu=};; esac; done
if [ -s "$dir/unknown" ]; then
  case ",$fields," in *",$(cat "$dir/unknown"),"*) echo "Field \"$(cat "$dir/unknown")\" is not a valid field to query."; exit 2;; esac
fi
if [ -e "$dir/says" ]; then cat "$dir/says"; exit "$(cat "$dir/code")"; fi
awk -F', ' -v want="$fields" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(want, f, ","); next }
  /^!/ { print substr($0, 2); next }
  { line = ""; for (i = 1; i <= n; i++) line = line (i > 1 ? ", " : "") $(at[f[i]]); print line }' "$dir/rows"
exit "$(cat "$dir/code")"
"#;

const HEADER: &str =
    "index, uuid, name, memory.total, mig.mode.current, compute_mode, pci.bus_id, driver_version";

/// What `nvidia-smi` says on one server.
pub struct Smi {
    dir: PathBuf,
    pci: PathBuf,
}

impl Smi {
    /// With `cards` NVIDIA L4, all well.
    pub(super) fn make(server: &Path, cards: usize) -> Self {
        let smi = Self {
            dir: server.join("smi"),
            pci: server.join("pci"),
        };
        fs::create_dir_all(&smi.dir).unwrap();
        fs::create_dir_all(&smi.pci).unwrap();
        // By its full path: the program may be mounted elsewhere.
        write_script(
            &server.join("bin/nvidia-smi"),
            &format!("dir={}\n{SCRIPT}", smi.dir.display()),
        );
        smi.cards(cards);
        smi
    }

    /// So many NVIDIA L4, all well, on the bus and in the list.
    pub fn cards(&self, count: usize) {
        self.reset();
        let rows: Vec<String> = (0..count).map(row).collect();
        self.rows(&rows, 0);
        for index in 0..count {
            self.plug(index, Some("nvidia"));
        }
    }

    /// These rows (a line that begins with `!` is printed as it is), and this exit code.
    pub fn rows(&self, rows: &[String], code: i32) {
        fs::write(
            self.dir.join("rows"),
            format!("{HEADER}\n{}\n", rows.join("\n")),
        )
        .unwrap();
        fs::write(self.dir.join("code"), code.to_string()).unwrap();
    }

    /// Prints this and ends with that code, whatever is asked.
    pub fn fails(&self, says: &str, code: i32) {
        fs::write(self.dir.join("says"), format!("{says}\n")).unwrap();
        fs::write(self.dir.join("code"), code.to_string()).unwrap();
    }

    /// Takes so many seconds for an answer.
    pub fn sleeps(&self, seconds: u32) {
        fs::write(self.dir.join("sleep"), seconds.to_string()).unwrap();
    }

    /// Does not know a field.
    pub fn lacks(&self, field: &str) {
        fs::write(self.dir.join("unknown"), field).unwrap();
    }

    /// Processes on cards, as `--query-compute-apps` prints them.
    pub fn processes(&self, lines: &str) {
        fs::write(self.dir.join("apps"), lines).unwrap();
    }

    /// Back to saying nothing special, with an empty bus.
    pub fn reset(&self) {
        for file in ["says", "sleep", "unknown", "apps"] {
            let _ = fs::remove_file(self.dir.join(file));
        }
        for card in fs::read_dir(&self.pci).unwrap().flatten() {
            fs::remove_dir_all(card.path()).unwrap();
        }
    }

    /// Takes every card off the bus.
    pub fn unplug(&self) {
        for card in fs::read_dir(&self.pci).unwrap().flatten() {
            fs::remove_dir_all(card.path()).unwrap();
        }
    }

    /// Puts a card on the bus, bound to a kernel driver or to none.
    pub fn plug(&self, index: usize, driver: Option<&str>) {
        let card = self.pci.join(format!("0000:{:02x}:00.0", 0x1b + index));
        fs::create_dir_all(&card).unwrap();
        fs::write(card.join("vendor"), "0x10de\n").unwrap();
        fs::write(card.join("class"), "0x030200\n").unwrap();
        if let Some(driver) = driver {
            std::os::unix::fs::symlink(
                format!("../../../bus/pci/drivers/{driver}"),
                card.join("driver"),
            )
            .unwrap();
        }
    }
}

/// UUID of card `index`.
pub fn uuid(index: usize) -> String {
    format!("GPU-{index:08x}-1111-2222-3333-444444444444")
}

/// Row of a sound NVIDIA L4.
pub fn row(index: usize) -> String {
    format!(
        "{index}, {}, NVIDIA L4, 23034, [N/A], Default, 00000000:{:02X}:00.0, 550.54.15",
        uuid(index),
        0x1b + index
    )
}
