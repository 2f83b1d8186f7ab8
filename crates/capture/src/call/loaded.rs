//! Which files a process had mapped as code, where and when: what its addresses mean, also once the
//! process is gone.

use event::Name;

/// Bounds what a damaged or hostile file makes us keep.
const MOST_LOADED: usize = 64 << 10;

/// Times are of the process's own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    begin: u64,
    end: u64,
    /// What was added to the file's addresses.
    pub bias: u64,
    from: u64,
    until: u64,
    pub path: Name,
}

#[derive(Debug, Clone, Default)]
pub struct Objects {
    all: Vec<Loaded>,
}

impl Objects {
    /// `BEGIN END BIAS TIME PATH`; `program` is the path of the program itself.
    pub fn loaded(&mut self, line: &str, program: &str) -> Option<()> {
        let mut words = line.splitn(5, ' ');
        let mut number = |radix| u64::from_str_radix(words.next()?, radix).ok();
        let (begin, end, bias, from) = (number(16)?, number(16)?, number(16)?, number(10)?);
        let path = match words.next()? {
            "[program]" => program,
            path => path,
        };
        if self.all.len() < MOST_LOADED && begin < end {
            self.all.push(Loaded {
                begin,
                end,
                bias,
                from,
                until: u64::MAX,
                path: path.into(),
            });
        }
        Some(())
    }

    /// `BEGIN TIME`
    pub fn unloaded(&mut self, line: &str) -> Option<()> {
        let (begin, time) = line.split_once(' ')?;
        let begin = u64::from_str_radix(begin, 16).ok()?;
        let time = time.trim().parse().ok()?;
        let mut last = self.all.iter_mut().rev();
        last.find(|object| object.begin == begin)?.until = time;
        Some(())
    }

    /// What an address was in at a moment; the newest there was.
    pub fn at(&self, address: u64, time: u64) -> Option<&Loaded> {
        let holds = |object: &&Loaded| (object.begin..object.end).contains(&address);
        let mut newest = self.all.iter().rev().filter(holds);
        let there = |object: &&Loaded| object.from <= time && time <= object.until;
        newest.find(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_mean_what_was_there_at_the_time() {
        let mut objects = Objects::default();
        let program = "/opt/my app/run";
        objects.loaded("1000 2000 0 5 [program]", program);
        objects.loaded("7f00 7fff 7000 10 /lib/a b.so", program);
        objects.unloaded("7f00 20");
        objects.loaded("7f80 8fff 7100 30 /lib/c.so", program);
        let path = |address, time| objects.at(address, time).map(|object| &*object.path);
        assert_eq!(path(0x1fff, 5), Some(program));
        assert_eq!(path(0x7f90, 15), Some("/lib/a b.so"));
        assert_eq!(
            (path(0x7f90, 25), path(0x7f90, 30)),
            (None, Some("/lib/c.so"))
        );
        assert_eq!((path(0x2000, 40), path(0x1fff, 4)), (None, None));
        for nonsense in ["", "1 2 3", "x y z 1 p", "2000 1000 0 5 p"] {
            objects.loaded(nonsense, program);
            objects.unloaded(nonsense);
        }
        assert_eq!(objects.all.len(), 3);
    }
}
