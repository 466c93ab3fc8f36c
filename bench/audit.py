"""What a provider asked of an API server, from its audit log (control_plane.py up --audit)."""

import json
from collections import Counter
from pathlib import Path

AGENT = "terraform-provider-loomplane/"


class Audit:
    """The requests of the provider since this was made."""

    def __init__(self, kubeconfig):
        self.log = Path(kubeconfig).parent / "audit.log"
        self.start = self.log.stat().st_size

    def requests(self):
        """How many of each kind: "list nodes", "create deployments", ..."""
        counts = Counter()
        with open(self.log) as log:
            log.seek(self.start)
            for line in log:
                event = json.loads(line)
                if event.get("userAgent", "").startswith(AGENT):
                    of = event.get("objectRef", {}).get("resource") or event["requestURI"]
                    counts[f"{event['verb']} {of}"] += 1
        return counts


def in_words(counts):
    return ", ".join(f"{count} x {what}" for what, count in counts.most_common()) or "none"
