//! A dashboard as its definitions write it down.

/// One dashboard.
pub(super) struct Dashboard {
    /// Its name in addresses, and its file's.
    pub(super) uid: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// What can be chosen at its top, besides the data source.
    pub(super) variables: &'static [Variable],
    pub(super) rows: Vec<Row>,
}

/// What can be chosen.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) query: &'static str,
    /// Picks text and value out of what the query gives, if that is not the values themselves.
    pub(super) pattern: &'static str,
}

const fn variable(name: &'static str, label: &'static str, query: &'static str) -> Variable {
    let pattern = "";
    Variable {
        name,
        label,
        query,
        pattern,
    }
}

const JOB: Variable = variable("job", "Job", "label_values(vllm:omni_build_info, job)");
const INSTANCE: Variable = variable(
    "instance",
    "Server",
    "label_values(vllm:omni_build_info{job=~\"$job\"}, instance)",
);
const MODEL: Variable = variable(
    "model_name",
    "Model",
    "label_values(vllm:omni_num_requests_running{@host}, model_name)",
);
/// Shown by its name, used by its id.
const STAGE: Variable = Variable {
    name: "stage",
    label: "Stage",
    query: "query_result(vllm:omni_stage_info{@model})",
    pattern: "/[{,]stage=\"(?<value>[^\"]+)\",stage_name=\"(?<text>[^\"]+)\"/",
};
const REPLICA: Variable = variable(
    "replica",
    "Replica",
    "label_values(vllm:omni_stage_info{@stage}, replica)",
);

/// For what concerns servers.
pub(super) const OF_HOST: &[Variable] = &[JOB, INSTANCE];
/// For what concerns replicas of stages.
pub(super) const OF_REPLICA: &[Variable] = &[JOB, INSTANCE, MODEL, STAGE, REPLICA];

/// Panels under a heading.
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) panels: Vec<Panel>,
}

pub(super) fn row(title: &'static str, panels: Vec<Panel>) -> Row {
    Row { title, panels }
}

/// How a panel looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// One figure.
    Stat,
    /// Lines over time.
    Lines,
    /// Areas over time, one on top of the other.
    Stack,
    /// A histogram over time.
    Heatmap,
    /// Labels of what is there now.
    Table,
}

/// A query of a panel.
pub(super) struct Query {
    pub(super) legend: String,
    pub(super) expression: String,
}

/// One panel.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) about: String,
    pub(super) look: Look,
    /// Grafana's word for the unit.
    pub(super) unit: &'static str,
    pub(super) queries: Vec<Query>,
    /// In columns of 24.
    pub(super) width: u32,
    pub(super) height: u32,
    /// From which value on it is orange, and from which red. The other way round if the second is smaller.
    pub(super) limits: Option<(f64, f64)>,
    /// Bounds of the axis, if they are known.
    pub(super) range: (Option<f64>, Option<f64>),
    /// What a figure reads while there is none.
    pub(super) nothing: &'static str,
}

fn panel(title: &'static str, unit: &'static str, look: Look, (width, height): (u32, u32)) -> Panel {
    Panel {
        title,
        about: String::new(),
        look,
        unit,
        queries: Vec::new(),
        width,
        height,
        limits: None,
        range: (Some(0.0), None),
        nothing: "no traffic",
    }
}

pub(super) fn stat(title: &'static str, unit: &'static str) -> Panel {
    panel(title, unit, Look::Stat, (4, 4))
}

pub(super) fn lines(title: &'static str, unit: &'static str) -> Panel {
    panel(title, unit, Look::Lines, (8, 8))
}

pub(super) fn stack(title: &'static str, unit: &'static str) -> Panel {
    panel(title, unit, Look::Stack, (8, 8))
}

/// A heat map of the histogram `family`, over what `labels` select.
pub(super) fn heatmap(title: &'static str, unit: &'static str, family: &str, labels: &str) -> Panel {
    let expression = format!("sum by (le) (increase({family}_bucket{{{labels}}}[@rate]))");
    panel(title, unit, Look::Heatmap, (8, 8)).query("{{le}}", &expression)
}

pub(super) fn table(title: &'static str) -> Panel {
    panel(title, "none", Look::Table, (24, 6))
}

impl Panel {
    /// What it tells, and what to think of it.
    pub(super) fn about(mut self, about: &str) -> Self {
        self.about = about.to_owned();
        self
    }

    /// When it has nothing to show although all is well.
    pub(super) fn empty_while(mut self, when: &str, nothing: &'static str) -> Self {
        self.about.push_str(&format!(" Empty while {when}."));
        self.nothing = nothing;
        self
    }

    pub(super) fn query(mut self, legend: &str, expression: &str) -> Self {
        self.queries.push(Query {
            legend: legend.to_owned(),
            expression: expression.to_owned(),
        });
        self
    }

    /// A quantile of the histogram `family`, over everything that `labels` select.
    pub(super) fn quantile(self, quantile: f64, family: &str, labels: &str) -> Self {
        let expression =
            format!("histogram_quantile({quantile}, sum by (le) (rate({family}_bucket{{{labels}}}[@rate])))");
        self.query(&format!("p{}", quantile * 100.0), &expression)
    }

    /// The quantiles that matter.
    pub(super) fn quantiles(self, family: &str, labels: &str) -> Self {
        [0.5, 0.95, 0.99]
            .into_iter()
            .fold(self, |panel, quantile| panel.quantile(quantile, family, labels))
    }

    /// A quantile of the histogram `family`, one line per stage.
    pub(super) fn quantile_by_stage(self, quantile: f64, family: &str) -> Self {
        let rate = format!("rate({family}_bucket{{@replica}}[@rate]) @named");
        let expression = format!("histogram_quantile({quantile}, sum by (le, stage_name) ({rate}))");
        self.query(&format!("{{{{stage_name}}}} p{}", quantile * 100.0), &expression)
    }

    /// A quantile of the histogram `family`, one line per replica.
    pub(super) fn quantile_by_replica(self, quantile: f64, family: &str) -> Self {
        let rate = format!("rate({family}_bucket{{@replica}}[@rate]) @named");
        let by = "le, stage_name, replica, instance";
        let expression = format!("histogram_quantile({quantile}, sum by ({by}) ({rate}))");
        self.query(BY_REPLICA, &expression)
    }

    /// Orange from the first, red from the second on; the other way round if the second is smaller.
    pub(super) fn limits(mut self, orange: f64, red: f64) -> Self {
        self.limits = Some((orange, red));
        self
    }

    /// A share of a whole.
    pub(super) fn share(mut self) -> Self {
        self.range = (Some(0.0), Some(1.0));
        self
    }

    /// Axis without a lower bound, for shares that are close to one.
    pub(super) fn open_below(mut self) -> Self {
        self.range.0 = None;
        self
    }

    /// Columns of 24.
    pub(super) fn wide(mut self, width: u32) -> Self {
        self.width = width;
        self
    }
}

/// Legend of what there is per replica.
pub(super) const BY_REPLICA: &str = "{{stage_name}} {{replica}} at {{instance}}";
