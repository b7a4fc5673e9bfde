//! Repeated verification of programs: EAGAIN says that a signal came, and nothing about the program.

use std::io;

/// How often a program is given to the verifier that a signal interrupts.
const ATTEMPTS: u32 = 5;

/// Asks the kernel again where it says so: a signal that waits ends the verifier's work with EAGAIN, whatever the program is.
pub(super) fn again<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match ask() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            answer => return answer,
        }
    }
    ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_that_was_interrupted_is_asked_again_and_not_for_ever() {
        let mut times = 0;
        let mut interrupted = |most: u32| {
            times = 0;
            let answer = again(|| {
                times += 1;
                if times > most { Ok(times) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            (answer.ok(), times)
        };
        assert_eq!(interrupted(0), (Some(1), 1));
        assert_eq!(interrupted(4), (Some(5), 5));
        assert_eq!(interrupted(9), (None, 5));
        assert_eq!(
            again(|| Err::<(), _>(io::ErrorKind::InvalidInput.into())).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
