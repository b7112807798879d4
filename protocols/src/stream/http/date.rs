//! Dates of answers: IMF-fixdate of RFC 9110, section 5.6.7.

/// Bytes of a date.
pub const DATE_BYTES: usize = 29;

/// `Sun, 06 Nov 1994 08:49:37 GMT`, from seconds since the beginning of 1970, leap seconds not
/// counted. Years are of four digits: from 10000 on, the last four.
pub fn date(seconds: u64) -> [u8; DATE_BYTES] {
    let (day, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, of_month) = civil(day);
    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    // 1970 began on a Thursday.
    let weekday = WEEKDAYS.as_chunks::<3>().0.get((day % 7) as usize);
    let month = MONTHS.as_chunks::<3>().0.get(month as usize);
    put(&mut date, 0, weekday.unwrap_or(b"Thu"));
    put(&mut date, 5, &digits(of_month));
    put(&mut date, 8, month.unwrap_or(b"Jan"));
    put(&mut date, 12, &digits(year / 100));
    put(&mut date, 14, &digits(year));
    put(&mut date, 17, &digits(second / 3600));
    put(&mut date, 20, &digits(second / 60 % 60));
    put(&mut date, 23, &digits(second % 60));
    date
}

/// Year, month from 0, and day of the month from 1, of a day since the beginning of 1970.
///
/// Years begin in March here, so that the day that some have and some have not is their last.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + DAYS_BEFORE_1970;
    let (era, of_era) = (day / ERA_DAYS, day % ERA_DAYS);
    let leap_days = of_era / 1460 + of_era / 146_096 - of_era / 36_524;
    let year_of_era = (of_era - leap_days) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on have 153 days, again and again.
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    (year, (month + 2) % 12, of_month)
}

/// The last two digits of a number.
fn digits(number: u64) -> [u8; 2] {
    let number = (number % 100) as u8;
    [b'0' + number / 10, b'0' + number % 10]
}

fn put(date: &mut [u8; DATE_BYTES], at: usize, text: &[u8]) {
    for (to, from) in date.iter_mut().skip(at).zip(text) {
        *to = *from;
    }
}

const DAY_SECONDS: u64 = 86_400;
/// Days of 400 years.
const ERA_DAYS: u64 = 146_097;
/// Days from the first of March of the year 0 to the beginning of 1970.
const DAYS_BEFORE_1970: u64 = 719_468;
const WEEKDAYS: &[u8] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_gnu_date_gives_them() {
        let check = |seconds: u64, text: &str| {
            let date = date(seconds);
            assert_eq!(str::from_utf8(&date), Ok(text), "{seconds}");
        };
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT");
        check(951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT");
        check(1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn days_follow_each_other() {
        let length = |year: u64, month: u64| match month {
            1 if year.is_multiple_of(4)
                && (!year.is_multiple_of(100) || year.is_multiple_of(400)) =>
            {
                29
            }
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut of_month) = (1970, 0, 1);
        for day in 0..200_000 {
            assert_eq!(civil(day), (year, month, of_month), "{day}");
            of_month += 1;
            if of_month > length(year, month) {
                (month, of_month) = (month + 1, 1);
            }
            if month == 12 {
                (year, month) = (year + 1, 0);
            }
        }
    }
}
