//! What the child does: writes a request, reads an answer, and looks what it is.
//!
//! It has an open connection and no other way out of its process, so it reads and writes that one, as far as its time goes.

use super::job::{Answer, BYTES_MAX, HttpJob};
use httparse::{EMPTY_HEADER, Header, Response, Status};
use std::io::{Read, Write};

/// Bytes of all headers of an answer.
const HEAD_MAX: usize = 16 << 10;

/// Headers of an answer.
const HEADERS_MAX: usize = 64;

/// Asks a server.
pub(super) fn ask(job: &HttpJob, connection: &mut (impl Read + Write)) -> Answer {
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: anode\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        job.path, job.host
    );
    match connection.write_all(request.as_bytes()) {
        Ok(()) => hear(connection),
        Err(error) => Answer::Failed(format!("the server cannot be reached: {error}")),
    }
}

/// Reads an answer, which may be anything.
pub fn hear(connection: &mut impl Read) -> Answer {
    read(connection).unwrap_or_else(Answer::Failed)
}

fn read(connection: &mut impl Read) -> Result<Answer, String> {
    let (mut came, mut block) = (Vec::new(), [0; 4096]);
    loop {
        let length = connection.read(&mut block).map_err(|error| format!("the server broke off: {error}"))?;
        came.extend_from_slice(&block[..length]);
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut answer = Response::new(&mut headers);
        match answer.parse(&came).map_err(|error| format!("the server does not speak HTTP: {error}"))? {
            Status::Complete(head) => {
                let what = of(answer.code.unwrap_or(0), answer.headers)?;
                return match what {
                    Expected::Elsewhere(location) => Ok(Answer::Elsewhere(location)),
                    Expected::Body(length) => body(came.split_off(head), length, connection).map(Answer::Body),
                };
            }
            Status::Partial if length == 0 => return Err("the server closed before its answer had ended".into()),
            Status::Partial if came.len() > HEAD_MAX => return Err(format!("headers longer than {HEAD_MAX} bytes")),
            Status::Partial => {}
        }
    }
}

/// What comes behind the headers.
enum Expected {
    /// So many bytes, or as many as come.
    Body(Option<usize>),
    Elsewhere(String),
}

fn of(code: u16, headers: &[Header<'_>]) -> Result<Expected, String> {
    let value = |name: &str| {
        let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(found.value).trim().to_owned())
    };
    match code {
        200 => {}
        301 | 302 | 303 | 307 | 308 => {
            let location = value("location").ok_or_else(|| format!("the server says {code}, and not where"))?;
            return Ok(Expected::Elsewhere(location));
        }
        code => return Err(format!("the server says {code}")),
    }
    if let Some(coding) = value("transfer-encoding").or_else(|| value("content-encoding")) {
        return Err(format!("the server sends it encoded, as nobody has asked: {}", coding.escape_debug()));
    }
    let length = value("content-length").map(|length| length.parse::<usize>());
    let length = length.transpose().map_err(|_| "the server gives no length that is a number")?;
    match length {
        Some(length) if length > BYTES_MAX => Err(too_long()),
        length => Ok(Expected::Body(length)),
    }
}

fn too_long() -> String {
    format!("it is longer than {BYTES_MAX} bytes")
}

fn body(mut came: Vec<u8>, length: Option<usize>, connection: &mut impl Read) -> Result<Vec<u8>, String> {
    let most = length.unwrap_or(BYTES_MAX + 1);
    let left = most.saturating_sub(came.len()) as u64;
    let read = connection.take(left).read_to_end(&mut came);
    read.map_err(|error| format!("the server broke off after {} bytes: {error}", came.len()))?;
    match length {
        Some(length) if came.len() < length => {
            Err(format!("the server broke off after {} of {length} bytes", came.len()))
        }
        Some(length) => {
            came.truncate(length);
            Ok(came)
        }
        None if came.len() > BYTES_MAX => Err(too_long()),
        None => Ok(came),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Cursor};

    /// A connection that has said all already, a few bytes at a time.
    struct Said(Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Said {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let few = buffer.len().min(7);
            self.0.read(&mut buffer[..few])
        }
    }

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn asked(answer: &str) -> (Answer, String) {
        let job = HttpJob { host: "a:1".into(), path: "/x".into(), wall_ms: 1 };
        let mut said = Said(Cursor::new(answer.as_bytes().to_vec()), Vec::new());
        let answer = ask(&job, &mut said);
        (answer, String::from_utf8(said.1).unwrap())
    }

    #[test]
    fn answers_are_bodies_other_places_or_failures_with_their_cause() {
        let (answer, request) = asked("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabcdef");
        assert_eq!(answer, Answer::Body(b"abc".to_vec()));
        assert!(request.starts_with("GET /x HTTP/1.0\r\nHost: a:1\r\n") && request.ends_with("\r\n\r\n"), "{request}");
        assert_eq!(asked("HTTP/1.1 200 OK\r\n\r\nabc").0, Answer::Body(b"abc".to_vec()), "to its end");
        assert_eq!(asked("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").0, Answer::Body(Vec::new()));
        assert_eq!(asked("HTTP/1.1 302 x\r\nLocation: /y\r\n\r\n").0, Answer::Elsewhere("/y".into()));
        let long = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(BYTES_MAX + 1));
        let many = format!("HTTP/1.0 200 OK\r\n{}", "A: b\r\n".repeat(HEADERS_MAX + 1));
        let wide = format!("HTTP/1.0 200 OK\r\nA: {}", "b".repeat(2 * HEAD_MAX));
        for (answer, why) in [
            ("", "closed before its answer had ended"),
            ("HTTP/1.0 200 OK\r\nContent-", "closed before its answer had ended"),
            ("SSH-2.0-x\r\n", "does not speak HTTP"),
            ("HTTP/1.0 404 no\r\n\r\n", "the server says 404"),
            ("HTTP/1.0 301 x\r\n\r\n", "says 301, and not where"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nabc", "broke off after 3 of 9 bytes"),
            ("HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\nabc", "no length that is a number"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1048577\r\n\r\nabc", "longer than 1048576 bytes"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "encoded, as nobody has asked: chunked"),
            (&long, "longer than 1048576 bytes"),
            (&many, "does not speak HTTP: too many headers"),
            (&wide, "headers longer than 16384 bytes"),
        ] {
            let Answer::Failed(said) = asked(answer).0 else { panic!("{answer:.60}") };
            assert!(said.contains(why), "{answer:.60}: {said}");
        }
    }
}
