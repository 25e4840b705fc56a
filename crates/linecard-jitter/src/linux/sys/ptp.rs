//! Clocks of devices, `/dev/ptpN`, read between two readings of the time of day (`linux/ptp_clock.h`).
#![expect(unsafe_code, reason = "ioctl has no safe form in std")]

use super::check;
use crate::linux::wire::Reading;
use libc::{ptp_clock_time, ptp_sys_offset, ptp_sys_offset_extended, ptp_sys_offset_precise};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Readings by one call, of which the shortest counts; the kernel takes at most 25.
const SAMPLES: libc::c_uint = 5;

/// How a clock is read, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Both clocks at once, by hardware.
    Precise,
    /// The driver reads the time of day before and after the device's register.
    Extended,
    /// The kernel does, before and after the whole call of the driver.
    Plain,
}

/// A device's clock.
#[derive(Debug)]
pub(crate) struct DeviceClock {
    file: File,
    method: Method,
}

impl DeviceClock {
    /// Opens it, and finds out how it can be read.
    pub(crate) fn open(number: u32) -> io::Result<Self> {
        let mut clock =
            Self { file: File::open(format!("/dev/ptp{number}"))?, method: Method::Precise };
        for method in [Method::Precise, Method::Extended] {
            clock.method = method;
            if clock.read().is_ok() {
                return Ok(clock);
            }
        }
        clock.method = Method::Plain;
        clock.read().map(|_| clock)
    }

    /// Reads it a few times.
    pub(crate) fn read(&self) -> io::Result<Vec<Reading>> {
        Ok(match self.method {
            Method::Precise => {
                // SAFETY: a struct of integers, for which zeros are valid.
                let mut read: ptp_sys_offset_precise = unsafe { std::mem::zeroed() };
                self.ask(libc::PTP_SYS_OFFSET_PRECISE, &mut read)?;
                of_precise(&read).into_iter().collect()
            }
            Method::Extended => {
                // SAFETY: a struct of integers, for which zeros are valid.
                let mut read: ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
                read.n_samples = SAMPLES;
                self.ask(libc::PTP_SYS_OFFSET_EXTENDED, &mut read)?;
                of_extended(&read)
            }
            Method::Plain => {
                // SAFETY: a struct of integers, for which zeros are valid.
                let mut read: ptp_sys_offset = unsafe { std::mem::zeroed() };
                read.n_samples = SAMPLES;
                self.ask(libc::PTP_SYS_OFFSET, &mut read)?;
                of_plain(&read)
            }
        })
    }

    fn ask<T>(&self, code: libc::Ioctl, request: &mut T) -> io::Result<()> {
        // SAFETY: each caller passes the struct that the code is defined with, which lives during the call.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), code, std::ptr::from_mut(request)) })
            .map(drop)
    }
}

fn of_precise(read: &ptp_sys_offset_precise) -> Option<Reading> {
    reading([&read.sys_realtime, &read.device, &read.sys_realtime])
}

fn of_extended(read: &ptp_sys_offset_extended) -> Vec<Reading> {
    let samples = read.ts.iter().take(read.n_samples as usize);
    samples.filter_map(|[before, device, after]| reading([before, device, after])).collect()
}

/// Each reading of the time of day but the first and the last is after one of the device and before the next.
fn of_plain(read: &ptp_sys_offset) -> Vec<Reading> {
    let samples = read.ts.windows(3).step_by(2).take(read.n_samples as usize);
    samples.filter_map(|times| reading([&times[0], &times[1], &times[2]])).collect()
}

/// A clock that was never set may have times before 1970.
fn reading(times: [&ptp_clock_time; 3]) -> Option<Reading> {
    let ns = |time: &ptp_clock_time| {
        u64::try_from(time.sec).ok()?.checked_mul(1_000_000_000)?.checked_add(time.nsec.into())
    };
    let [before_ns, device_ns, after_ns] = times.map(ns);
    Some(Reading { before_ns: before_ns?, device_ns: device_ns?, after_ns: after_ns? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ns: u64) -> ptp_clock_time {
        let (sec, nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as u32);
        ptp_clock_time { sec, nsec, reserved: 0 }
    }

    #[test]
    fn the_answers_of_the_kernel_are_readings() {
        let now = 1_700_000_000_000_000_000;
        let right = |n: u64| Reading {
            before_ns: now + 10 * n,
            device_ns: 37 + 10 * n,
            after_ns: now + 10 * n + 10,
        };
        // SAFETY: structs of integers, for which zeros are valid.
        let (mut extended, mut plain): (ptp_sys_offset_extended, ptp_sys_offset) =
            unsafe { std::mem::zeroed() };
        (extended.n_samples, plain.n_samples) = (2, 2);
        for n in 0..2 {
            let Reading { before_ns, device_ns, after_ns } = right(n);
            let at = n as usize;
            extended.ts[at] = [before_ns, device_ns, after_ns].map(time);
            (plain.ts[2 * at], plain.ts[2 * at + 1]) = (time(before_ns), time(device_ns));
            plain.ts[2 * at + 2] = time(after_ns);
        }
        assert_eq!(of_extended(&extended), [right(0), right(1)]);
        assert_eq!(of_plain(&plain), [right(0), right(1)]);
        let (device, sys_realtime, sys_monoraw) = (time(37), time(now), time(5));
        let precise = ptp_sys_offset_precise { device, sys_realtime, sys_monoraw, rsv: [0; 4] };
        let both = Reading { before_ns: now, device_ns: 37, after_ns: now };
        assert_eq!(of_precise(&precise), Some(both));
    }

    #[test]
    fn a_clock_before_1970_has_no_reading() {
        let before = ptp_clock_time { sec: -1, nsec: 0, reserved: 0 };
        assert_eq!(reading([&time(1), &before, &time(2)]), None);
    }

    #[test]
    fn a_clock_that_is_not_there_is_an_error() {
        assert_eq!(
            DeviceClock::open(u32::MAX).map(drop).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
