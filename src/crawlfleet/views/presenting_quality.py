"""Measured runs from the model to what the API shows."""

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import FieldProfile, MeasuredRun, Verdict, series_name
from crawlfleet.views.presenting import instant, moment
from crawlfleet.views.quality import FieldFigures, MeasuredRunView, SeriesView


def present_measured(run: MeasuredRun) -> MeasuredRunView:
    profile = run.profile
    summary = "as expected" if run.verdict is Verdict.OK else told(run.judgement)
    return MeasuredRunView(
        id=run.id,
        task_id=run.task_id,
        project_id=run.project_id,
        series=series_name(run.series),
        at=moment(run.at),
        verdict=str(run.verdict),
        summary=summary,
        on_drift=str(run.on_drift),
        decision=str(run.decision),
        decided_by=run.decided_by,
        decided_at=instant(run.decided_at),
        reason=run.reason,
        items=profile.items,
        pages=profile.pages,
        errors=profile.errors,
        fields={name: _figures(each) for name, each in (profile.fields or {}).items()},
        checks=[*run.checks],
        run_id=run.run_id,
        step=run.step,
        version=run.version,
    )


def present_series(newest: MeasuredRun) -> SeriesView:
    return SeriesView(
        series=series_name(newest.series),
        project_id=newest.project_id,
        newest=present_measured(newest),
    )


def _figures(field: FieldProfile) -> FieldFigures:
    return FieldFigures(
        present=field.present,
        filled=field.filled,
        kinds=field.kinds,
        distinct=field.distinct,
        low=field.low,
        high=field.high,
        mean=field.mean,
        fitting=field.fitting,
    )
