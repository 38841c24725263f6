package main

import (
	"flag"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
)

// helm prints what `helm template` would: the manifests of a chart, each behind a line that names its template.
func helm(args []string) error {
	if len(args) < 2 || args[0] != "template" {
		return fmt.Errorf("helm: say template CHART")
	}
	values := map[string]any{}
	flags := flag.NewFlagSet("helm template CHART", flag.ExitOnError)
	name := flags.String("name", "release-name", "name of the release")
	namespace := flags.String("namespace", "default", "namespace of the release")
	flags.Func("values", "file of values; the last one wins", func(file string) error {
		more, err := common.ReadValuesFile(file)
		values = loader.MergeMaps(values, more)
		return err
	})
	flags.Func("set", "key=value[,key=value...]; the last one wins", func(pairs string) error {
		return strvals.ParseInto(pairs, values)
	})
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}
	return template(args[1], values, common.ReleaseOptions{Name: *name, Namespace: *namespace, Revision: 1, IsInstall: true})
}

// template renders a chart as an installation would get it.
func template(folder string, values map[string]any, release common.ReleaseOptions) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		manifest := strings.TrimSpace(files[file])
		if manifest == "" || strings.HasPrefix(path.Base(file), "_") || path.Base(file) == "NOTES.txt" {
			continue
		}
		fmt.Printf("---\n# Source: %s\n%s\n", file, strings.TrimPrefix(manifest, "---\n"))
	}
	return nil
}
