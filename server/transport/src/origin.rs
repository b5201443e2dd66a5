//! Cross-origin requests. Browsers let any page submit a form without a preflight, and harm is done without reading
//! the answer.
//!
//! A page whose name is rebound to this machine (DNS rebinding) has the origin that it calls. So at a loopback
//! address only names of this machine, and those that `--allowed-hosts` lists, count as its own.

use http::header::{HOST, ORIGIN};
use http::{HeaderValue, Request};

use super::hosts::{Hosts, names_this_machine};

/// Among the extensions of a request that a page of an origin sent which is not allowed.
#[derive(Debug, Clone, Copy)]
pub struct ForeignOrigin;

/// The request, marked if a page sent it that is neither of this server nor of one of the `allowed` origins; "*" allows
/// all. `local`: the server listens at a loopback address, where its own names are those of this machine and those
/// that `hosts` lists.
pub fn marked<B>(mut request: Request<B>, allowed: &[HeaderValue], local: bool, hosts: &Hosts) -> Request<B> {
    let headers = request.headers();
    let crosses = headers
        .get("sec-fetch-site")
        .is_some_and(|site| site == "cross-site");
    let foreign = match headers.get(ORIGIN) {
        None => crosses,
        Some(origin) => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
            let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let own = own.zip(host).is_some_and(|((_, of), host)| {
                of.eq_ignore_ascii_case(host) && (!local || names_this_machine(host) || hosts.lists(host))
            });
            !own && !allowed.iter().any(|known| known == "*" || known == origin)
        }
    };
    if foreign {
        request.extensions_mut().insert(ForeignOrigin);
    }
    request
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use omni_config::AllowedHosts;

    use super::*;

    fn is_foreign(headers: &[(&str, &str)], allowed: &'static str) -> bool {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let allowed = [HeaderValue::from_static(allowed)];
        let names = AllowedHosts::new(vec!["speech.example".to_owned()]);
        let hosts = Hosts::new(names, Ipv4Addr::LOCALHOST.into(), false);
        let request = marked(request.body(()).unwrap(), &allowed, true, &hosts);
        request.extensions().get::<ForeignOrigin>().is_some()
    }

    #[test]
    fn pages_of_other_origins_are_told_from_programs_own_pages_and_allowed_ones() {
        let host = ("host", "localhost:50051");
        let page = ("origin", "https://evil.example");
        assert!(is_foreign(&[host, page], "https://good.example"));
        assert!(is_foreign(&[host, ("origin", "null")], "https://good.example"));
        assert!(is_foreign(
            &[host, ("sec-fetch-site", "cross-site")],
            "https://good.example"
        ));
        assert!(!is_foreign(&[host], "https://good.example"), "a program");
        assert!(!is_foreign(&[host, page], "*"));
        assert!(!is_foreign(&[host, page], "https://evil.example"));
        assert!(!is_foreign(
            &[host, ("origin", "http://localhost:50051")],
            "https://good.example"
        ));
    }

    #[test]
    fn a_name_that_is_made_to_lead_here_is_foreign_where_the_server_is_for_this_machine() {
        for host in [
            "localhost:50051",
            "127.0.0.1:50051",
            "[::1]:50051",
            "studio.localhost",
            "LOCALHOST",
            "speech.example",
            "speech.example:8443",
        ] {
            let origin = format!("http://{host}");
            assert!(
                !is_foreign(&[("host", host), ("origin", &origin)], "https://good.example"),
                "{host}"
            );
        }
        for host in [
            "evil.example:50051",
            "localhost.evil.example",
            "192.168.1.2:50051",
            "127.0.0.1.evil.example:1",
        ] {
            let origin = format!("http://{host}");
            let headers = [("host", host), ("origin", origin.as_str())];
            assert!(is_foreign(&headers, "https://good.example"), "{host}");
            let request = headers.iter().fold(Request::builder(), |request, (name, value)| {
                request.header(*name, *value)
            });
            let request = marked(request.body(()).unwrap(), &[], false, &Hosts::default());
            assert!(
                request.extensions().get::<ForeignOrigin>().is_none(),
                "{host} may be a name of a server for others"
            );
        }
    }
}
