//! A dashboard as Grafana reads it: schema 41, that of Grafana 11 and 12.

use serde_json::{Map, Value, json};

use super::expand;
use super::model::{Dashboard, Look, Panel, Row, Variable};

const SCHEMA: u32 = 41;
const COLUMNS: u32 = 24;

/// The text of a dashboard's file. Keys are in alphabetical order, whatever order the library keeps.
pub(super) fn text(dashboard: &Dashboard) -> String {
    let mut text = format!("{:#}", sorted(value(dashboard)));
    text.push('\n');
    text
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            let entries = entries.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn value(dashboard: &Dashboard) -> Value {
    json!({
        "id": null,
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["omni"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": true,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "refresh": "30s",
        "links": [links()],
        "annotations": {"list": annotations()},
        "templating": {"list": variables(dashboard.variables)},
        "panels": panels(&dashboard.rows),
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${DS_PROMETHEUS}"})
}

/// From each dashboard to the others, with what was chosen and the time.
fn links() -> Value {
    json!({
        "type": "dashboards",
        "title": "Omni",
        "tags": ["omni"],
        "asDropdown": false,
        "includeVars": true,
        "keepTime": true,
        "targetBlank": false,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    })
}

/// A line wherever a server started.
fn annotations() -> Value {
    json!([
        {
            "builtIn": 1,
            "datasource": {"type": "grafana", "uid": "-- Grafana --"},
            "enable": true,
            "hide": true,
            "iconColor": "rgba(0, 211, 255, 1)",
            "name": "Annotations & Alerts",
            "type": "dashboard",
        },
        {
            "datasource": source(),
            "enable": true,
            "hide": false,
            "iconColor": "orange",
            "name": "Starts",
            "expr": expand("process_start_time_seconds{@host} * 1000"),
            "step": "60s",
            "titleFormat": "{{instance}} started",
            "useValueForTime": true,
        },
    ])
}

fn variables(variables: &[Variable]) -> Value {
    let mut list = vec![json!({
        "type": "datasource",
        "name": "DS_PROMETHEUS",
        "label": "Data source",
        "query": "prometheus",
        "current": {},
        "options": [],
        "hide": 0,
        "includeAll": false,
        "multi": false,
        "refresh": 1,
        "regex": "",
        "skipUrlSync": false,
    })];
    list.extend(variables.iter().map(variable));
    Value::Array(list)
}

fn variable(variable: &Variable) -> Value {
    let query = expand(variable.query);
    json!({
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": source(),
        "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "regex": variable.pattern,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
        "hide": 0,
        "includeAll": true,
        "multi": true,
        "refresh": 2,
        "skipUrlSync": false,
        "sort": 3,
    })
}

/// Every row and its panels, from left to right and wrapped at the last column.
fn panels(rows: &[Row]) -> Value {
    let mut panels = Vec::new();
    let mut top = 0;
    for row in rows {
        let place = json!({"x": 0, "y": top, "w": COLUMNS, "h": 1});
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "gridPos": place,
            "panels": [],
        }));
        top += 1;
        let (mut left, mut tallest) = (0, 0);
        for panel in &row.panels {
            if left + panel.width > COLUMNS {
                (top, left, tallest) = (top + tallest, 0, 0);
            }
            let place = json!({"x": left, "y": top, "w": panel.width, "h": panel.height});
            panels.push(panel_value(panel, panels.len() + 1, &place));
            left += panel.width;
            tallest = tallest.max(panel.height);
        }
        top += tallest;
    }
    Value::Array(panels)
}

fn panel_value(panel: &Panel, id: usize, place: &Value) -> Value {
    let mut value = json!({
        "id": id,
        "type": kind(panel.look),
        "title": panel.title,
        "description": panel.about,
        "datasource": source(),
        "gridPos": place,
        "targets": targets(panel),
        "options": options(panel),
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
    });
    if panel.look == Look::Table {
        let hidden = ["Time", "Value", "__name__", "job"];
        let hidden: Map<_, _> = hidden
            .iter()
            .map(|name| ((*name).to_owned(), json!(true)))
            .collect();
        value["transformations"] = json!([{"id": "organize", "options": {"excludeByName": hidden}}]);
    }
    value
}

fn kind(look: Look) -> &'static str {
    match look {
        Look::Stat => "stat",
        Look::Lines | Look::Stack => "timeseries",
        Look::Heatmap => "heatmap",
        Look::Table => "table",
    }
}

fn targets(panel: &Panel) -> Value {
    let format = match panel.look {
        Look::Heatmap => "heatmap",
        Look::Table => "table",
        _ => "time_series",
    };
    let instant = panel.look == Look::Table;
    let target = |(name, query): (char, &super::model::Query)| {
        json!({
            "refId": name.to_string(),
            "datasource": source(),
            "editorMode": "code",
            "expr": query.expression,
            "legendFormat": query.legend,
            "format": format,
            "instant": instant,
            "range": !instant,
        })
    };
    Value::Array(('A'..='Z').zip(&panel.queries).map(target).collect())
}

fn options(panel: &Panel) -> Value {
    match panel.look {
        Look::Stat => json!({
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "value",
            "wideLayout": true,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
        }),
        Look::Lines | Look::Stack => json!({
            "legend": {"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["mean", "max", "lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
        Look::Heatmap => json!({
            "calculate": false,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64, "reverse": false},
            "filterValues": {"le": 1e-9},
            "legend": {"show": true},
            "rowsFrame": {"layout": "auto"},
            "tooltip": {"mode": "single", "showColorScale": false, "yHistogram": true},
            "yAxis": {"axisPlacement": "left", "reverse": false, "unit": panel.unit},
        }),
        Look::Table => json!({"cellHeight": "sm", "showHeader": true}),
    }
}

fn defaults(panel: &Panel) -> Value {
    let mut defaults = json!({
        "unit": panel.unit,
        "noValue": panel.nothing,
        "mappings": [],
        "color": {"mode": if panel.look == Look::Stat { "thresholds" } else { "palette-classic" }},
        "thresholds": {"mode": "absolute", "steps": steps(panel.limits)},
    });
    if panel.look == Look::Heatmap || panel.look == Look::Table {
        defaults["custom"] = json!({});
        return defaults;
    }
    if let Some(least) = panel.range.0 {
        defaults["min"] = json!(least);
    }
    if let Some(most) = panel.range.1 {
        defaults["max"] = json!(most);
    }
    if panel.look != Look::Stat {
        defaults["custom"] = lines(panel);
    }
    defaults
}

fn lines(panel: &Panel) -> Value {
    let stacked = panel.look == Look::Stack;
    json!({
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": if stacked { 40 } else { 5 },
        "gradientMode": "none",
        "pointSize": 5,
        "showPoints": "never",
        "spanNulls": false,
        "axisPlacement": "auto",
        "axisLabel": "",
        "scaleDistribution": {"type": "linear"},
        "stacking": {"mode": if stacked { "normal" } else { "none" }, "group": "A"},
        "thresholdsStyle": {"mode": if panel.limits.is_some() { "dashed" } else { "off" }},
    })
}

/// Colours by value: green and then orange and red, or red and then orange and green.
fn steps(limits: Option<(f64, f64)>) -> Value {
    match limits {
        None => json!([{"color": "green", "value": null}]),
        Some((orange, red)) if orange <= red => json!([
            {"color": "green", "value": null},
            {"color": "orange", "value": orange},
            {"color": "red", "value": red},
        ]),
        Some((orange, red)) => json!([
            {"color": "red", "value": null},
            {"color": "orange", "value": red},
            {"color": "green", "value": orange},
        ]),
    }
}
