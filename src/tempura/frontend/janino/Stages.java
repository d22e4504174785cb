package tempura;

import java.util.NoSuchElementException;
import java.util.TreeSet;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.status.AppStatusStore;
import org.apache.spark.status.api.v1.StageData;
import scala.collection.Iterator;

/** What jobs took, as Spark's status store knows it. */
public final class Stages {
    /** Of all jobs with a tag: their numbers in the first line; then what their stages took. */
    public String of(SparkContext context, String tag) throws TimeoutException {
        // Events reach the status store asynchronously: without waiting, the last stages would be missing.
        context.listenerBus().waitUntilEmpty();
        AppStatusStore store = context.statusStore();
        StringBuilder told = new StringBuilder();
        TreeSet stages = new TreeSet();
        int[] jobs = context.statusTracker().getJobIdsForTag(tag);
        for (int i = 0; i < jobs.length; i++) {
            told.append(i == 0 ? "" : " ").append(jobs[i]);
            Iterator ids = store.job(jobs[i]).stageIds().iterator();
            while (ids.hasNext()) {
                stages.add(ids.next());
            }
        }
        told.append('\n');
        for (Object id : stages) {
            told.append(stage(store, ((Integer) id).intValue()));
        }
        return told.toString();
    }

    /**
     * A line for a stage of which tasks have ended: how many, nanoseconds of CPU, bytes shuffled, read and written. Nothing for another, and for one
     * that the store has dropped.
     */
    public String stage(AppStatusStore store, int id) {
        StageData stage;
        try {
            stage = store.lastStageAttempt(id);
        } catch (NoSuchElementException error) {
            return "";
        }
        if (stage.numCompleteTasks() == 0) {
            return "";
        }
        String work = stage.numCompleteTasks() + " " + stage.executorCpuTime();
        return work + " " + stage.shuffleWriteBytes() + " " + stage.inputBytes() + " " + stage.outputBytes() + "\n";
    }
}
