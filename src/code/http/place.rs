//! What a URL names: a host, as the configuration knows it, and a path there.

use core::fmt;

/// Bytes of a URL.
pub const URL_MAX: usize = 1024;

/// Bytes of a host in it, with its port.
pub const HOST_MAX: usize = 260;

/// What a URL begins with.
const SCHEME: &str = "http://";

/// A place at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPlace {
    /// The host as URLs write it, with its port if that is not 80, in small letters.
    pub host: String,
    /// Its path, which begins with '/'.
    pub path: String,
}

impl HttpPlace {
    /// That of a URL, or why it is none of ours.
    pub fn of(url: &str) -> Result<HttpPlace, String> {
        if url.len() > URL_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("a URL has {URL_MAX} printable characters of ASCII at most"));
        }
        let rest = url.strip_prefix(SCHEME).ok_or("only http:// is fetched from: the name vouches for the bytes")?;
        let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let host = host.strip_suffix(":80").unwrap_or(host).to_ascii_lowercase();
        if host.is_empty() || host.len() > HOST_MAX {
            return Err(format!("the URL names no host of {HOST_MAX} characters at most"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if path.len() > URL_MAX - HOST_MAX - SCHEME.len() {
            return Err("the URL's path is too long".into());
        }
        Ok(HttpPlace { host, path })
    }

    /// Where a redirection from here leads.
    pub fn redirected(&self, location: &str) -> Result<HttpPlace, String> {
        match location.strip_prefix('/') {
            Some(rest) if !rest.starts_with('/') => HttpPlace::of(&format!("http://{}{location}", self.host)),
            _ => HttpPlace::of(location),
        }
    }
}

impl fmt::Display for HttpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_hosts_as_they_are_written_and_paths() {
        for (url, host, path) in [
            ("http://a/b", "a", "/b"),
            ("http://A.Example:80", "a.example", "/"),
            ("http://10.0.0.1:8000/x?y=1#z", "10.0.0.1:8000", "/x?y=1"),
            ("http://[fd00::1]/", "[fd00::1]", "/"),
            ("http://a?b", "a", "/?b"),
            // Whoever is before an '@' is no host that a configuration names.
            ("http://a@b/", "a@b", "/"),
        ] {
            assert_eq!(HttpPlace::of(url), Ok(HttpPlace { host: host.into(), path: path.into() }), "{url}");
        }
        for wrong in ["", "https://a/", "a/b", "http://", "http:///x", "http://a/ b", "http://a/\r\nX: y", "file:///x"]
        {
            assert!(HttpPlace::of(wrong).is_err(), "{wrong:?}");
        }
        assert!(HttpPlace::of(&format!("http://a/{}", "x".repeat(URL_MAX))).is_err());
    }

    #[test]
    fn a_redirection_is_whole_or_of_the_same_host() {
        let here = HttpPlace::of("http://a:1/x/y").unwrap();
        for (location, there) in [("/z", "http://a:1/z"), ("http://b/z", "http://b/z")] {
            assert_eq!(here.redirected(location).unwrap().to_string(), there);
        }
        for wrong in ["z", "//b/z", "https://b/", "", "javascript:x"] {
            assert!(here.redirected(wrong).is_err(), "{wrong}");
        }
    }
}
