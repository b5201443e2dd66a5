//! `omni-plan`: how many replicas of each stage callers need, by simulation. See `omni-plan --help` and ../README.md.

mod cores;
mod cost;
mod dice;
mod models;
mod plan;
mod pool;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;

use cost::Costs;
use plan::{Loss, Outcome, Plan, Scale, Stage};
use world::World;

/// Finds how many replicas of each stage callers need, or simulates a given number of replicas.
///
/// Scheduling and routing are the server's own code; time is simulated, and a step takes the time of the cost model.
#[derive(Debug, Clone, Parser)]
#[command(name = "omni-plan", version)]
struct Args {
    /// Time of steps, as JSON; cluster/sim/costs has some
    #[arg(long, value_name = "FILE")]
    costs: PathBuf,
    /// Callers, each with one utterance after the other
    #[arg(long)]
    callers: usize,
    /// Replicas of talker and code2wav; unless given, the fewest that keep --ttfa and --gaps
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    replicas: Vec<usize>,
    /// Most milliseconds to the first audio of 95 of 100 requests
    #[arg(long, default_value_t = 300.0, value_name = "MS")]
    ttfa: f64,
    /// Largest share of utterances with a gap
    #[arg(long, default_value_t = 0.01, value_name = "SHARE")]
    gaps: f64,
    /// Seconds of audio of an utterance, on average
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// By what share of that an utterance may be longer or shorter, from 0 to 1
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    spread: f64,
    /// Callers begin at the same instant. With utterances of one length and no pauses between them, they stay in step
    #[arg(long, conflicts_with = "ramp")]
    together: bool,
    /// Cores that all parts and the callers share, with --replicas. Unless given, each replica has its own, and only
    /// steps take time
    // More replicas on the same cores can be worse, so the fewest cannot be searched for by halves; lost ones would keep their share.
    #[arg(long, requires = "replicas", conflicts_with = "lose")]
    cores: Option<usize>,
    /// Positions of a prompt
    #[arg(long, default_value_t = 16)]
    prompt: u32,
    /// Seconds between two utterances of a caller, on average
    #[arg(long, default_value_t = 5.0)]
    pause: f64,
    /// Callers read audio as it comes, not at the speed of playback
    #[arg(long)]
    unpaced: bool,
    /// Utterances that may be worked on at once
    #[arg(long, default_value_t = 100_000)]
    max_active: usize,
    /// Route at random
    #[arg(long)]
    random: bool,
    /// Lose this share of the talkers, and of the vocoders, in the middle
    #[arg(long, value_name = "SHARE,SHARE", value_delimiter = ',')]
    lose: Vec<f64>,
    /// Callers come over this many seconds
    #[arg(long, default_value_t = 0.0)]
    ramp: f64,
    /// Autoscale: utterances that one talker and one vocoder is to have; --replicas are the fewest
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    scale: Vec<f64>,
    /// Seconds that a new replica takes before it works
    #[arg(long, default_value_t = 60.0)]
    start: f64,
    /// Seconds that are simulated
    #[arg(long, default_value_t = 120.0)]
    length: f64,
    /// Seed of all random draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Most replicas that are tried.
const MOST: usize = 1 << 14;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let text = std::fs::read_to_string(&args.costs).with_context(|| args.costs.display().to_string())?;
    let costs: Costs = serde_json::from_str(&text).with_context(|| args.costs.display().to_string())?;
    let plan = plan(&args, costs)?;
    let (replicas, outcome) = match args.replicas[..] {
        [talkers, vocoders] => ([talkers, vocoders], simulate(&plan, [talkers, vocoders])),
        [] => fewest(&args, &plan)?,
        _ => bail!("--replicas: expected two numbers, of talkers and of code2wav"),
    };
    print(&table(&args, replicas, &outcome))
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

fn plan(args: &Args, costs: Costs) -> anyhow::Result<Plan> {
    let pair = |list: &[f64], flag: &str| match list {
        [] => Ok(None),
        [first, second] => Ok(Some([*first, *second])),
        _ => bail!("{flag}: expected two numbers, for talkers and for code2wav"),
    };
    let lose = pair(&args.lose, "--lose")?;
    let scale = pair(&args.scale, "--scale")?;
    let stages = [Stage::Talker, Stage::Code2Wav];
    let lost = |shares: [f64; 2]| {
        let at = seconds(args.length / 2.0);
        stages
            .into_iter()
            .zip(shares)
            .map(move |(stage, share)| Loss { at, stage, share })
    };
    let scale = |n: usize| {
        scale.map(|targets: [f64; 2]| Scale {
            bounds: (args.replicas.get(n).copied().unwrap_or(1), MOST),
            target: targets[n],
            every: seconds(15.0),
            start: seconds(args.start),
            down_after: seconds(300.0),
        })
    };
    anyhow::ensure!(
        args.cores.is_none_or(|cores| cores > 0),
        "--cores: expected more than 0"
    );
    for (what, share) in [("--spread", args.spread), ("--costs: varies", costs.varies)] {
        anyhow::ensure!(
            (0.0..=1.0).contains(&share),
            "{what}: expected a share from 0 to 1"
        );
    }
    Ok(Plan {
        costs,
        cores: args.cores,
        seed: args.seed,
        callers: args.callers,
        ramp: seconds(args.ramp),
        together: args.together,
        frames: args.seconds * 1e3 / costs.frame_ms,
        spread: args.spread,
        prompt: args.prompt,
        pause: seconds(args.pause),
        paced: !args.unpaced,
        buffered: seconds(5.0),
        max_active: args.max_active,
        replicas: [1, 1],
        scale: [scale(0), scale(1)],
        losses: lose.into_iter().flat_map(lost).collect(),
        random_routing: args.random,
        length: seconds(args.length),
        warm_up: seconds(args.length / 6.0),
    })
}

fn simulate(plan: &Plan, replicas: [usize; 2]) -> Outcome {
    World::new(Plan {
        replicas,
        ..plan.clone()
    })
    .run()
}

/// The fewest replicas of each stage, given plenty of the other, and both together.
fn fewest(args: &Args, plan: &Plan) -> anyhow::Result<([usize; 2], Outcome)> {
    let keeps =
        |outcome: &Outcome| outcome.first_audio_at(0.95) * 1e3 <= args.ttfa && outcome.gaps() <= args.gaps;
    let plenty = plan.callers.clamp(1, MOST);
    anyhow::ensure!(
        keeps(&simulate(plan, [plenty, plenty])),
        "a replica of each stage for every caller does not keep --ttfa {} and --gaps {}",
        args.ttfa,
        args.gaps
    );
    let least = |with: &dyn Fn(usize) -> [usize; 2]| {
        let mut low = 1;
        let mut high = plenty;
        while low < high {
            let middle = (low + high) / 2;
            if keeps(&simulate(plan, with(middle))) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        low
    };
    let talkers = least(&|talkers| [talkers, plenty]);
    let vocoders = least(&|vocoders| [talkers, vocoders]);
    let replicas = [talkers, vocoders];
    Ok((replicas, simulate(plan, replicas)))
}

fn table(args: &Args, [talkers, vocoders]: [usize; 2], outcome: &Outcome) -> String {
    let line = |what: &str, value: String| format!("| {what} | {value} |\n");
    let both = |values: [String; 2]| format!("{}, {}", values[0], values[1]);
    let ms = |share: f64| format!("{:.1} ms", outcome.first_audio_at(share) * 1e3);
    [
        "| | |\n|---|---|\n".to_owned(),
        line("callers", args.callers.to_string()),
        line("talkers, code2wav", format!("{talkers}, {vocoders}")),
        line("most at once", both(outcome.most.map(|count| count.to_string()))),
        line("on average", both(outcome.mean.map(|mean| format!("{mean:.1}")))),
        line(
            "busy",
            both(outcome.busy.map(|busy| format!("{:.0} %", busy * 100.0))),
        ),
        line(
            "callers per talker",
            format!("{:.1}", args.callers as f64 / outcome.mean[0].max(1e-9)),
        ),
        line("utterances heard", outcome.done.to_string()),
        line(
            "audio per second",
            format!("{:.2} s", outcome.audio / outcome.counted),
        ),
        line("first audio, median", ms(0.5)),
        line("first audio, 95 of 100", ms(0.95)),
        line(
            "utterances with a gap",
            format!("{:.2} %", outcome.gaps() * 100.0),
        ),
        line("longest gap", format!("{:.0} ms", outcome.longest_gap * 1e3)),
        line("went on elsewhere", outcome.again.to_string()),
    ]
    .concat()
}

fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("cannot print")
}

#[cfg(test)]
mod tests;
