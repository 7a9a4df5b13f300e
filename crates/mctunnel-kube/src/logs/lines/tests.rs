//! Lines as they arrive in pieces of any size, and logs that are resumed after any cut: nothing twice, nothing lost, no byte changed.

use super::*;
use crate::logs::place::Place;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

const T: &str = "2026-01-01T00:00:00.000000001Z";

fn pieces(answer: &[u8], at_once: usize) -> Vec<Piece> {
    let mut lines = Lines::new(Known::default());
    let mut pieces = Vec::new();
    answer.chunks(at_once).for_each(|chunk| lines.feed(chunk, |piece| pieces.push(piece)));
    pieces.extend(lines.finish());
    pieces
}

/// The bytes of a log as its pieces have them.
fn joined(pieces: &[Piece]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        all.extend_from_slice(&piece.bytes);
        all.extend((piece.end == PieceEnd::Newline).then_some(b'\n'));
    }
    all
}

#[test]
fn nothing_but_the_time_and_the_newline_is_taken_off() {
    let lines: [&[u8]; 6] =
        [b"plain", b"", b"  two spaces, a tab\t and a CR\r", b"\xff\xfe\x00", b" ", b"2026-01-01T00:00:00Z x"];
    let mut answer = Vec::new();
    for line in lines {
        answer.extend_from_slice(T.as_bytes());
        answer.push(b' ');
        answer.extend_from_slice(line);
        answer.push(b'\n');
    }
    for at_once in [1, 2, 3, 7, 1000] {
        let given = pieces(&answer, at_once);
        assert!(given.iter().map(|piece| piece.bytes.as_slice()).eq(lines), "{at_once}: {given:?}");
        assert!(given.iter().all(|piece| piece.end == PieceEnd::Newline && piece.time % 1_000_000_000 == 1));
    }
}

#[test]
fn times_have_nanoseconds_and_any_offset() {
    let at = |stamp: &str| nanos(stamp.as_bytes());
    assert_eq!(at("1970-01-01T00:00:01.000000007Z"), Some(1_000_000_007));
    assert_eq!(at("1970-01-01T02:00:01.5+02:00"), Some(1_500_000_000));
    assert_eq!(at("1969-12-31T23:59:59.999999999Z"), Some(-1));
    assert_eq!(at("failed"), None);
}

#[test]
fn a_last_line_without_newline_is_given_only_when_the_log_is_over() {
    let mut lines = Lines::new(Known::default());
    let mut given = Vec::new();
    lines.feed(format!("{T} whole\n{T} unfin").as_bytes(), |piece| given.push(piece));
    assert_eq!(joined(&given), b"whole\n");
    let last = lines.finish().unwrap();
    assert_eq!((last.bytes.as_slice(), last.end), (b"unfin".as_slice(), PieceEnd::Nothing));
    assert_eq!(lines.finish(), None);
}

#[test]
fn long_lines_come_in_pieces_and_letters_stay_whole() {
    let line = "ä€𝄞x".repeat(MOST_PIECE / 4);
    let given = pieces(format!("{T} {line}\n{T} next\n").as_bytes(), 1_000);
    assert!(given.len() > 3 && given.iter().all(|piece| piece.bytes.len() <= MOST_PIECE));
    assert!(given.iter().all(|piece| std::str::from_utf8(&piece.bytes).is_ok()), "a letter was cut");
    assert_eq!(joined(&given), format!("{line}\nnext\n").as_bytes());
    let exact = "x".repeat(MOST_PIECE);
    assert_eq!(pieces(format!("{T} {exact}\n").as_bytes(), 77).len(), 1);
}

#[test]
fn what_the_kubelet_says_itself_is_not_the_containers() {
    let noise = format!("unable to retrieve container logs\n\n{T} line\n{}\n{T} last\n", "x".repeat(1_000));
    for at_once in [1, 10, 10_000] {
        let mut lines = Lines::new(Known::default());
        let mut given = Vec::new();
        noise.as_bytes().chunks(at_once).for_each(|chunk| lines.feed(chunk, |piece| given.push(piece)));
        assert_eq!(joined(&given), b"line\nlast\n", "{at_once}");
        assert_eq!(lines.untimed(), 3);
    }
}

// === a log that is resumed ===

/// A log file as the kubelet has it.
struct LogFile {
    lines: Vec<(i64, Vec<u8>)>,
    /// How many of them a rotation has taken away.
    rotated: usize,
    /// Whether the last one has its newline.
    is_whole: bool,
}

impl LogFile {
    fn random(random: &mut StdRng) -> Self {
        let mut now: i64 = 1_767_225_600_000_000_000;
        let mut lines = Vec::new();
        for number in 0..random.random_range(1..120) {
            now += [0, 0, 1, 1_000_000, 300_000_000, 2_000_000_000][random.random_range(0..6)];
            // Standard error is a little behind now and then.
            let time = now - i64::from(random.random_ratio(1, 8)) * random.random_range(0..2_000_000);
            let long = if random.random_ratio(1, 30) { MOST_PIECE * 5 / 2 } else { 0 };
            lines.push((time, format!("{number} {}", "é".repeat(long / 2)).into_bytes()));
        }
        Self { lines, rotated: 0, is_whole: random.random_ratio(1, 2) }
    }

    /// What the server answers: whole lines that are not from before the second.
    fn answer(&self, since: Option<i64>, written: usize) -> Vec<u8> {
        let mut answer = Vec::new();
        for (number, (time, line)) in self.lines.iter().enumerate().take(written).skip(self.rotated) {
            if since.is_none_or(|since| *time >= since * 1_000_000_000) {
                let stamp = Timestamp::from_nanosecond(i128::from(*time)).unwrap();
                answer.extend_from_slice(format!("{stamp:.9} ").as_bytes());
                answer.extend_from_slice(line);
                answer.extend((self.is_whole || number + 1 < self.lines.len()).then_some(b'\n'));
            }
        }
        answer
    }

    fn all(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self.lines.iter().flat_map(|(_, line)| [line, b"\n".as_slice()].concat()).collect();
        all.truncate(all.len() - usize::from(!self.is_whole));
        all
    }
}

/// Reads an answer up to a cut, keeps the place with each group of pieces, and loses the last group now and then.
fn read(answer: &[u8], is_over: bool, place: &mut Place, taken: &mut Vec<Piece>, random: &mut StdRng) {
    let mut lines = Lines::new(place.known());
    let mut rest = answer;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(random.random_range(1..=rest.len().min(40_000)));
        rest = behind;
        let mut group = Vec::new();
        lines.feed(chunk, |piece| group.push(piece));
        if random.random_ratio(1, 20) {
            // Killed before it was on disk.
            return;
        }
        group.iter().for_each(|piece| place.took(0, piece));
        taken.extend(group);
    }
    if let Some(piece) = is_over.then(|| lines.finish()).flatten() {
        place.took(0, &piece);
        taken.push(piece);
    }
}

#[test]
fn whatever_is_cut_and_killed_every_line_is_taken_once_and_in_order() {
    for seed in 0..400 {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut file = LogFile::random(random);
        let (mut place, mut taken, mut written) = (Place::default(), Vec::new(), 0);
        while written < file.lines.len() {
            written = random.random_range(written..=file.lines.len());
            let answer = file.answer(place.since(), written);
            let cut = if random.random_ratio(1, 2) { random.random_range(0..=answer.len()) } else { answer.len() };
            read(&answer[..cut], false, &mut place, &mut taken, random);
            place = Place::read(&place.text()).unwrap();
        }
        for _ in 0..1_000 {
            let answer = file.answer(place.since(), written);
            read(&answer, true, &mut place, &mut taken, random);
            if joined(&taken).len() >= file.all().len() {
                break;
            }
        }
        assert_eq!(String::from_utf8(joined(&taken)), String::from_utf8(file.all()), "seed {seed}");
        // What is asked for again when everything was taken, also after a rotation, brings nothing.
        file.rotated = random.random_range(0..file.lines.len());
        read(&file.answer(place.since(), written), true, &mut place, &mut taken, random);
        assert_eq!(joined(&taken).len(), file.all().len(), "seed {seed}");
    }
}

#[test]
fn after_a_rotation_what_is_left_is_taken_whole() {
    let lines = (0..20).map(|number| (i64::from(number) * 1_000, number.to_string().into_bytes())).collect();
    let mut file = LogFile { lines, rotated: 0, is_whole: true };
    let (mut place, mut taken) = (Place::default(), Vec::new());
    let mut whole = |answer: Vec<u8>| {
        let mut lines = Lines::new(place.known());
        lines.feed(&answer, |piece| {
            place.took(0, &piece);
            taken.push(piece);
        });
        (place.since(), joined(&taken))
    };
    let (since, before) = whole(file.answer(None, 10));
    file.rotated = 12;
    let (_, all) = whole(file.answer(since, 20));
    let expected: String = (0..10).chain(12..20).map(|number| format!("{number}\n")).collect();
    assert_eq!((before.len(), String::from_utf8(all).unwrap()), (20, expected));
}
