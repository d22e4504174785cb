package tempura;

import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.optimizer.Optimizer;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import scala.collection.Iterator;

/** Catalyst's batches without some of their rules. */
public final class Rules {
    /**
     * The plan after the batches, each to its fixed point or as often as it says; of a plan with sub-queries up to so many passes.
     * {@code without}: the simple names of rules, a line each.
     */
    public LogicalPlan apply(Optimizer optimizer, LogicalPlan plan, String without, int passes) {
        Set<String> skipped = new HashSet<String>();
        for (String name : without.split("\n")) {
            skipped.add(name);
        }
        boolean nested = plan.containsPattern(TreePattern.PLAN_EXPRESSION());
        LogicalPlan result = pass(optimizer, (LogicalPlan) plan.clone(), skipped);
        for (int i = 1; nested && i < passes; i++) {
            LogicalPlan again = pass(optimizer, result, skipped);
            if (again.fastEquals(result)) {
                break;
            }
            result = again;
        }
        return result;
    }

    private static LogicalPlan pass(Optimizer optimizer, LogicalPlan plan, Set<String> skipped) {
        Iterator batches = optimizer.batches().iterator();
        while (batches.hasNext()) {
            RuleExecutor.Batch batch = (RuleExecutor.Batch) batches.next();
            int iterations = batch.strategy().maxIterations();
            boolean changing = true;
            for (int i = 0; changing && i < iterations; i++) {
                LogicalPlan before = plan;
                Iterator rules = batch.rules().iterator();
                while (rules.hasNext()) {
                    Rule rule = (Rule) rules.next();
                    plan = skipped.contains(simpleName(rule.ruleName())) ? plan : (LogicalPlan) rule.apply(plan);
                }
                changing = !plan.fastEquals(before);
            }
        }
        return plan;
    }

    /** As simple_name in catalyst.py. */
    private static String simpleName(String name) {
        String bare = name.replaceAll("\\$+$", "");
        return bare.substring(Math.max(bare.lastIndexOf('.'), bare.lastIndexOf('$')) + 1);
    }
}
