//! Hours of some days, in a fixed offset from UTC. A window that ends before it begins runs past midnight and belongs to the day it
//! began on.

use crate::{file::WindowText, nearest::suggestion};

/// Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MINUTES_A_DAY: u32 = 24 * 60;

/// When a binding or a deny rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    /// Monday first.
    days: [bool; 7],
    /// Minutes since midnight, both: `from` is in, `to` is not.
    from: u32,
    to: u32,
    /// Minutes east of UTC.
    offset: i32,
}

impl Window {
    pub(crate) fn read(text: &WindowText) -> Result<Self, String> {
        let days = days(&text.days.as_ref().ok_or("days is missing: write days: [\"*\"] for every day")?.0)?;
        let from = minute(text.from.as_deref().ok_or("from is missing")?)?;
        let to = minute(text.to.as_deref().ok_or("to is missing")?)?;
        if from == to || from == MINUTES_A_DAY {
            return Err(
                "from and to are the same: write from: \"00:00\" and to: \"24:00\" for the whole day".to_owned()
            );
        }
        let offset = text.utc_offset.as_deref().map_or(Ok(0), offset)?;
        Ok(Self { days, from, to, offset })
    }

    /// Whether the window is open, in seconds since 1970.
    pub(crate) fn has(&self, now: u64) -> bool {
        let (day, minute) = local(now, self.offset);
        let is_on = |day: u32| self.days.get(usize::try_from(day % 7).unwrap_or_default()).copied().unwrap_or_default();
        if self.from < self.to {
            is_on(day) && (self.from..self.to).contains(&minute)
        } else {
            is_on(day) && minute >= self.from || is_on(day + 6) && minute < self.to
        }
    }
}

/// The day of the week, 0 for Monday, and the minute of that day, at an offset from UTC in minutes.
pub(crate) fn local(now: u64, offset: i32) -> (u32, u32) {
    let minutes = i64::try_from(now / 60).unwrap_or(i64::MAX).saturating_add(i64::from(offset));
    let minute = minutes.rem_euclid(i64::from(MINUTES_A_DAY));
    // 1970-01-01 was a Thursday.
    let day = (minutes.div_euclid(i64::from(MINUTES_A_DAY)) + 3).rem_euclid(7);
    (u32::try_from(day).unwrap_or_default(), u32::try_from(minute).unwrap_or_default())
}

fn days(list: &[String]) -> Result<[bool; 7], String> {
    match list {
        [all] if all == "*" => Ok([true; 7]),
        list => {
            let mut days = [false; 7];
            for text in list {
                let known = DAYS.iter().zip(&mut days).find(|(name, _)| *name == text);
                let (_, day) = known
                    .ok_or_else(|| format!("there is no day {text:?}{}; write mon to sun", suggestion(text, DAYS)))?;
                *day = true;
            }
            Ok(days)
        }
    }
}

/// Minutes since midnight of `08:30`; `24:00` is the end of the day.
fn minute(text: &str) -> Result<u32, String> {
    let bad = || format!("{text:?} is not a time of day: write it in quotes and with two digits each, as in \"08:30\"");
    let (hours, minutes) = pair(text).ok_or_else(bad)?;
    match (hours, minutes) {
        (24, 0) | (0..24, 0..60) => Ok(hours * 60 + minutes),
        _ => Err(bad()),
    }
}

/// Minutes east of UTC of `+02:00` or `-03:30`.
fn offset(text: &str) -> Result<i32, String> {
    let bad = || format!("utcOffset {text:?} is not an offset: write \"+02:00\" or \"-03:30\"");
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return Err(bad()),
    };
    match pair(rest) {
        Some((hours @ 0..=14, minutes @ 0..60)) => Ok(sign * i32::try_from(hours * 60 + minutes).map_err(|_| bad())?),
        _ => Err(bad()),
    }
}

/// The two numbers of `hh:mm`.
fn pair(text: &str) -> Option<(u32, u32)> {
    let (left, right) = text.split_once(':')?;
    let number = |digits: &str| {
        let is_plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain { digits.parse().ok() } else { None }
    };
    Some((number(left)?, number(right)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::List;

    fn window(days: &[&str], from: &str, to: &str, offset: Option<&str>) -> Result<Window, String> {
        Window::read(&WindowText {
            days: Some(List(days.iter().map(|day| (*day).to_owned()).collect())),
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
            utc_offset: offset.map(str::to_owned),
        })
    }

    fn at(text: &str) -> u64 {
        crate::circumstance::seconds(humantime::parse_rfc3339(text).unwrap())
    }

    #[test]
    fn a_window_is_open_on_its_days_and_hours() {
        let office = &["mon", "tue", "wed", "thu", "fri"][..];
        for (days, from, to, offset, now, expected) in [
            // 2026-11-16 is a Monday.
            (office, "08:00", "18:00", None, "2026-11-16T08:00:00Z", true),
            (office, "08:00", "18:00", None, "2026-11-16T07:59:59Z", false),
            (office, "08:00", "18:00", None, "2026-11-16T17:59:59Z", true),
            (office, "08:00", "18:00", None, "2026-11-16T18:00:00Z", false),
            (office, "08:00", "18:00", None, "2026-11-15T12:00:00Z", false),
            (office, "08:00", "18:00", Some("+02:00"), "2026-11-16T05:59:00Z", false),
            (office, "08:00", "18:00", Some("+02:00"), "2026-11-16T06:00:00Z", true),
            (office, "08:00", "18:00", Some("+02:00"), "2026-11-16T16:00:00Z", false),
            (office, "00:00", "24:00", Some("-05:00"), "2026-11-16T04:59:00Z", false),
            (office, "00:00", "24:00", Some("-05:00"), "2026-11-16T05:00:00Z", true),
            // Past midnight it is still the day before.
            (&["sun"], "22:00", "06:00", None, "2026-11-15T23:00:00Z", true),
            (&["sun"], "22:00", "06:00", None, "2026-11-16T05:59:00Z", true),
            (&["sun"], "22:00", "06:00", None, "2026-11-16T06:00:00Z", false),
            (&["sun"], "22:00", "06:00", None, "2026-11-15T05:00:00Z", false),
            (&["sun"], "22:00", "06:00", None, "2026-11-15T22:00:00Z", true),
            (&["sun"], "22:00", "06:00", None, "2026-11-15T21:59:00Z", false),
            (&["tue"], "22:00", "06:00", None, "2026-11-18T05:00:00Z", true),
            (&["mon"], "22:00", "06:00", None, "2026-11-18T05:00:00Z", false),
            (&["*"], "00:00", "24:00", None, "2026-11-18T00:00:00Z", true),
            // Minutes count, and offsets have them too.
            (office, "08:30", "18:15", None, "2026-11-16T08:29:00Z", false),
            (office, "08:30", "18:15", None, "2026-11-16T08:30:00Z", true),
            (office, "08:30", "18:15", None, "2026-11-16T18:14:00Z", true),
            (office, "08:30", "18:15", None, "2026-11-16T18:15:00Z", false),
            (office, "08:00", "18:00", Some("-03:30"), "2026-11-16T11:29:00Z", false),
            (office, "08:00", "18:00", Some("-03:30"), "2026-11-16T11:30:00Z", true),
        ] {
            let window = window(days, from, to, offset).unwrap();
            assert_eq!(window.has(at(now)), expected, "{days:?} {from} {to} {offset:?} {now}");
        }
    }

    #[test]
    fn misspelt_windows_are_errors() {
        for (days, from, to, offset) in [
            (&["monday"][..], "08:00", "18:00", None),
            (&["*", "mon"], "08:00", "18:00", None),
            (&["mon"], "8:00", "18:00", None),
            (&["mon"], "08:00", "08:00", None),
            (&["mon"], "24:00", "06:00", None),
            (&["mon"], "08:00", "24:01", None),
            (&["mon"], "08:60", "18:00", None),
            (&["mon"], "0800", "1800", None),
            (&["mon"], "+8:00", "18:00", None),
            (&["mon"], "08:00", "18:0x", None),
            (&["mon"], "08:00", "18:00", Some("02:00")),
            (&["mon"], "08:00", "18:00", Some("+15:00")),
            (&["mon"], "08:00", "18:00", Some("Europe/Berlin")),
        ] {
            assert!(window(days, from, to, offset).is_err(), "{days:?} {from} {to} {offset:?}");
        }
    }
}
