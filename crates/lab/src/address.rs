//! The SSH address of a board, from its `NetworkService`.
//!
//! Uses the options of labgrid's own driver (`driver/sshdriver.py`): host keys are not checked,
//! because they change with every image. Limit: passwords of the lab are not used; ssh must log in
//! with a key or without authentication.

use flashfit_host::SshAddress;

use crate::error::LabError;
use crate::literal::PythonLiteral;
use crate::resource::{Resource, ResourceView};

/// The resource class with an SSH address.
const SERVICE: &str = "NetworkService";

/// The address of the service called `name`, or of the only one, through the host `proxy` if given.
pub(crate) fn of_place(
    shown: &ResourceView,
    name: Option<&str>,
    proxy: Option<&str>,
) -> Result<SshAddress, LabError> {
    let place = || shown.place.clone();
    let services: Vec<&Resource> = shown
        .resources
        .iter()
        .filter(|resource| resource.class == SERVICE)
        .filter(|resource| name.is_none_or(|name| resource.name == name))
        .collect();
    let service = match services[..] {
        [service] => service,
        [] => return Err(LabError::NoService { place: place() }),
        [..] => {
            let names = services.iter().map(|service| service.name.clone()).collect();
            return Err(LabError::SeveralServices { place: place(), names });
        }
    };
    if !service.available {
        return Err(LabError::ExporterAway { place: place() });
    }
    of_service(&service.params, proxy)
        .map_err(|field| LabError::BadAddress { place: place(), field })
}

/// Errors name the unusable field but not its value, which may be secret.
fn of_service(params: &PythonLiteral, proxy: Option<&str>) -> Result<SshAddress, &'static str> {
    let text = |field| params.get(field).and_then(PythonLiteral::text);
    let address = text("address").ok_or("address")?;
    let user = text("username").filter(|user| is_plain(user)).ok_or("username")?;
    let port = match params.get("port") {
        Some(PythonLiteral::Int(port)) => u16::try_from(*port).ok().filter(|&port| port > 0),
        None => Some(22),
        Some(_) => None,
    };
    let port = port.ok_or("port")?;
    let through = jump(params, proxy).ok_or("proxy")?;
    let (host, interface) = match address.split_once('%') {
        Some((host, interface)) => (host, Some(interface)),
        None => (address, None),
    };
    if !is_plain(host) || !interface.is_none_or(is_plain) {
        return Err("address");
    }
    let mut settings: Vec<String> =
        ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
            .map(str::to_owned)
            .into();
    match (through, interface) {
        // A link-local address of the exporter: labgrid's helper connects there.
        (Some(exporter), Some(interface)) => settings.push(format!(
            "ProxyCommand=ssh {exporter} -- sudo --non-interactive \
             labgrid-bound-connect {interface} {host} {port}"
        )),
        (Some(exporter), None) => settings.push(format!("ProxyJump={exporter}")),
        (None, Some(_)) => return Err("address"),
        (None, None) => {}
    }
    let mut options = ["-p", &port.to_string(), "-l", user].map(str::to_owned).to_vec();
    options.extend(settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]));
    Ok(SshAddress { host: host.to_owned(), options })
}

/// The jump host: the exporter if it requires it, else the given one. `None` if the name is not
/// usable.
fn jump(params: &PythonLiteral, proxy: Option<&str>) -> Option<Option<String>> {
    let extra = params.get("extra");
    let required =
        extra.and_then(|extra| extra.get("proxy_required")) == Some(&PythonLiteral::Bool(true));
    let exporter = extra.and_then(|extra| extra.get("proxy")).and_then(PythonLiteral::text);
    let chosen = match (required, proxy) {
        (false, None) => return Some(None),
        (true, _) => exporter.or(proxy)?,
        (false, Some(proxy)) => exporter.unwrap_or(proxy),
    };
    is_plain(chosen).then(|| Some(chosen.to_owned()))
}

/// Whether ssh and a shell take this only as a name.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(services: &[(&str, &str)]) -> ResourceView {
        let resource = |(name, params): &(&str, &str)| Resource {
            name: (*name).to_owned(),
            class: SERVICE.to_owned(),
            available: true,
            params: PythonLiteral::read(params).unwrap(),
        };
        ResourceView {
            place: "board1".into(),
            resources: services.iter().map(resource).collect(),
            orphaned: Vec::new(),
        }
    }

    const DIRECT: &str = "{'address': '10.0.0.7', 'port': 2201, 'username': 'root',
                           'extra': {'proxy': 'rack1', 'proxy_required': False}}";

    #[test]
    fn a_board_without_proxy_is_reached_directly() {
        let address = of_place(&shown(&[("ssh", DIRECT)]), None, None).unwrap();
        let line = address.arguments().join(" ");
        assert!(line.starts_with("-p 2201 -l root -o StrictHostKeyChecking=no "), "{line}");
        assert!(line.ends_with(" -- 10.0.0.7"), "{line}");
        assert!(!line.contains("Proxy"), "{line}");
    }

    #[test]
    fn a_board_behind_its_exporter_is_reached_through_it() {
        let behind = DIRECT.replace("False", "True");
        let address = of_place(&shown(&[("ssh", &behind)]), None, None).unwrap();
        assert_eq!(address.options.last().unwrap(), "ProxyJump=rack1");
        let forced = of_place(&shown(&[("ssh", DIRECT)]), None, Some("gate")).unwrap();
        assert_eq!(forced.options.last().unwrap(), "ProxyJump=rack1");
        let link = behind.replace("10.0.0.7", "fe80::1%eth0");
        let address = of_place(&shown(&[("ssh", &link)]), None, None).unwrap();
        assert_eq!(
            address.options.last().unwrap(),
            "ProxyCommand=ssh rack1 -- sudo --non-interactive \
             labgrid-bound-connect eth0 fe80::1 2201"
        );
    }

    #[test]
    fn one_of_several_services_is_chosen_by_name() {
        let several = shown(&[("ssh", DIRECT), ("serial", &DIRECT.replace("2201", "2202"))]);
        let error = of_place(&several, None, None).unwrap_err();
        assert!(matches!(error, LabError::SeveralServices { names, .. } if names.len() == 2));
        assert_eq!(of_place(&several, Some("serial"), None).unwrap().options[1], "2202");
        let error = of_place(&shown(&[]), None, None).unwrap_err();
        assert!(matches!(error, LabError::NoService { .. }));
    }

    #[test]
    fn names_that_look_like_options_are_refused() {
        let changes = [
            ("10.0.0.7", "-oProxyCommand=x"),
            ("'root'", "'root x'"),
            ("2201", "0"),
            ("2201", "70000"),
            ("'rack1', 'proxy_required': False", "'$(x)', 'proxy_required': True"),
        ];
        for (from, to) in changes {
            let changed = DIRECT.replace(from, to);
            assert_ne!(changed, DIRECT);
            let error = of_place(&shown(&[("ssh", &changed)]), None, None).unwrap_err();
            assert!(matches!(error, LabError::BadAddress { .. }), "{changed}");
        }
    }
}
