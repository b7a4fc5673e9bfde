//! Lines of the control protocol, at both ends: neither reads one without an end, however slowly it comes.

use std::borrow::Borrow;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a connection may take.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Between its requests, and for its answers.
    pub(super) idle: Duration,
    /// For a line that has begun.
    pub(super) line: Duration,
}

/// Reads a line of at most so many bytes into an empty buffer: false at its end, and an error when it is not whole in time.
pub(super) fn read_line(
    reader: &mut BufReader<impl Read + Borrow<UnixStream>>,
    line: &mut Vec<u8>,
    most: usize,
    times: Times,
) -> io::Result<bool> {
    let mut end = Instant::now() + times.idle;
    while line.last() != Some(&b'\n') && line.len() < most {
        if line.is_empty() && !reader.buffer().is_empty() {
            end = Instant::now() + times.line;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if reader.buffer().is_empty() {
            reader.get_ref().borrow().set_read_timeout(Some(left))?;
        }
        let came = match reader.fill_buf() {
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        };
        if came.is_empty() {
            return Ok(!line.is_empty());
        }
        if line.is_empty() {
            end = Instant::now() + times.line;
        }
        let until = came.iter().position(|byte| *byte == b'\n').map_or(came.len(), |at| at + 1);
        let taken = until.min(most - line.len());
        line.extend_from_slice(&came[..taken]);
        reader.consume(taken);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_line_has_a_time_and_a_length() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut reader = BufReader::new(&here);
        let hour = Duration::from_secs(3600);
        let short = Duration::from_millis(20);
        let mut read = |most, idle, line| {
            let mut buffer = Vec::new();
            read_line(&mut reader, &mut buffer, most, Times { idle, line }).map(|is| (is, buffer))
        };
        there.write_all(b"one\ntwo\nthree").unwrap();
        assert_eq!(read(100, hour, hour).unwrap(), (true, b"one\n".to_vec()));
        assert_eq!(read(2, hour, hour).unwrap(), (true, b"tw".to_vec()), "cut");
        assert_eq!(read(100, hour, hour).unwrap(), (true, b"o\n".to_vec()));
        // A line that has begun has its own time, however much comes of it.
        assert_eq!(read(100, hour, short).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(read(100, short, hour).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(there);
        assert_eq!(read(100, hour, hour).unwrap(), (false, vec![]));
    }
}
