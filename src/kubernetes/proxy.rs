//! Which proxy leads to an API server. kube matches NO_PROXY against the proxy's own address instead of the server's, so
//! the choice is made here.

use std::net::IpAddr;

/// The proxy for `target`: the explicit one, else the environment's unless NO_PROXY covers the target.
///
/// # Errors
/// The URL that does not parse.
pub(super) fn choose(
    explicit: Option<&str>,
    target: &http::Uri,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<http::Uri>, String> {
    let get = |upper: &str, lower: &str| {
        env(upper)
            .or_else(|| env(lower))
            .filter(|value| !value.is_empty())
    };
    if let Some(url) = explicit {
        return parse(url).map(Some);
    }
    let Some(url) =
        get("HTTPS_PROXY", "https_proxy").filter(|_| target.scheme_str() == Some("https"))
    else {
        return Ok(None);
    };
    let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if local
        || get("NO_PROXY", "no_proxy").is_some_and(|list| covers(&list, host, target.port_u16()))
    {
        return Ok(None);
    }
    parse(&url).map(Some)
}

fn parse(url: &str) -> Result<http::Uri, String> {
    let with_scheme = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    match with_scheme.parse::<http::Uri>() {
        Ok(uri) if uri.host().is_some() => Ok(uri),
        // The userinfo may be a password: only what follows it is shown.
        _ => Err(url.rsplit('@').next().unwrap_or_default().to_owned()),
    }
}

/// Whether a NO_PROXY list covers a host: `*`, names with their subdomains, addresses, CIDR blocks, each with an optional port.
fn covers(list: &str, host: &str, port: Option<u16>) -> bool {
    list.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| {
            if entry == "*" {
                return true;
            }
            if let Some(inside) = in_block(entry, host) {
                return inside;
            }
            let (name, wanted_port) = match entry.rsplit_once(':') {
                Some((name, digits)) if !name.contains(':') => (name, digits.parse::<u16>().ok()),
                _ => (entry, None),
            };
            if wanted_port.is_some_and(|wanted| Some(wanted) != port) {
                return false;
            }
            let name = name
                .trim_start_matches("*.")
                .trim_start_matches('.')
                .to_ascii_lowercase();
            let host = host.to_ascii_lowercase();
            host == name
                || host
                    .strip_suffix(&name)
                    .is_some_and(|rest| rest.ends_with('.'))
        })
}

/// `None` when the entry is not a CIDR block.
fn in_block(entry: &str, host: &str) -> Option<bool> {
    let (network, bits) = entry.split_once('/')?;
    let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
    Some(match (network, host.parse::<IpAddr>()) {
        (IpAddr::V4(network), Ok(IpAddr::V4(host))) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            network.to_bits() & mask == host.to_bits() & mask
        }
        (IpAddr::V6(network), Ok(IpAddr::V6(host))) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            network.to_bits() & mask == host.to_bits() & mask
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(explicit: Option<&str>, target: &str, no_proxy: &str) -> Option<String> {
        let env = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://proxy.example:3128".to_owned()),
            "NO_PROXY" => Some(no_proxy.to_owned()),
            _ => None,
        };
        choose(explicit, &target.parse().unwrap(), &env)
            .unwrap()
            .map(|uri| uri.host().unwrap().to_owned())
    }

    #[test]
    fn no_proxy_is_matched_against_the_api_server() {
        for (no_proxy, target, through) in [
            ("", "https://a.example:6443", true),
            ("a.example", "https://a.example:6443", false),
            (".example", "https://a.example:6443", false),
            ("ample", "https://a.example:6443", true),
            ("a.example:443", "https://a.example:6443", true),
            ("a.example:6443", "https://a.example:6443", false),
            ("10.0.0.0/8", "https://10.3.4.5:6443", false),
            ("10.0.0.0/8", "https://11.3.4.5:6443", true),
            ("0.0.0.0/0", "https://11.3.4.5:6443", false),
            ("fd00::/8", "https://[fd00::1]:6443", false),
            ("proxy.example", "https://a.example:6443", true),
            ("*", "https://a.example:6443", false),
            ("", "https://127.0.0.1:6443", false),
        ] {
            assert_eq!(
                chosen(None, target, no_proxy).is_some(),
                through,
                "{no_proxy:?} {target}"
            );
        }
        assert_eq!(
            chosen(Some("socks5://me"), "https://a.example", "*").as_deref(),
            Some("me"),
            "an explicit proxy is always used"
        );
    }
}
